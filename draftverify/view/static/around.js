// Above a report: the way back to the list and to what waits for people, and what is wrong while the run cannot be read.
import { ask, make } from "./dom.js";

const EVERY = 2000;
const run = new URLSearchParams(location.search).get("run") ?? "";
const bar = make("div", { id: "around" });
bar.style.cssText = "display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: .4rem 1.2rem; font: .9rem/1.5 system-ui, sans-serif;"
  + " border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent)";
bar.setAttribute("role", "status");
document.body.prepend(bar);

async function show() {
  const { ok, status, data } = await ask(`api/questions?run=${encodeURIComponent(run)}`);
  const parts = document.body.dataset.list === "no" ? [] : [make("a", { href: "./" }, "All runs")];
  if (ok) {
    const { open, decided } = data.progress;
    const words = open ? `${open} wait for a person` : decided ? `${decided} decided; run the same command to go on` : "";
    if (words) parts.push(make("a", { href: `review?run=${encodeURIComponent(run)}` }, words));
  } else {
    const words = status === 403 ? "this server was started anew; open the URL on its terminal" : data.error;
    parts.push(make("b", {}, `What is below is not followed now: ${words}`));
  }
  bar.replaceChildren(...parts);
  bar.hidden = parts.length === 0;
  bar.style.display = parts.length ? "flex" : "none";
  setTimeout(show, EVERY);
}

show();
