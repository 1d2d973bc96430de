// The list of runs, read again every few seconds.
import { ask, make } from "./dom.js";

const EVERY = 2000;
let before = "";

function state(run) {
  if (run.finished && !run.waiting) return "finished";
  if (run.waiting && run.done + run.waiting >= run.units) return "waits for people";
  return "not finished";
}

function row(run) {
  const link = make("a", { href: `run?run=${encodeURIComponent(run.run)}` }, run.run);
  if (run.problem) {
    return make("tr", {}, make("td", {}, make("b", {}, run.run)), make("td", { colSpan: 3, className: "why" }, run.problem));
  }
  const fill = make("span");
  fill.style.width = `${run.units ? (100 * run.done) / run.units : 0}%`;
  const bar = make("div", { className: run.finished && !run.waiting ? "bar full" : "bar" }, fill);
  const { pending, answered } = run.questions;
  const review = pending || answered
    ? make("a", { href: `review?run=${encodeURIComponent(run.run)}` }, pending ? `decide ${pending}` : `${answered} decided`)
    : "";
  const failed = run.statuses.failed ? make("span", { className: "why" }, `, ${run.statuses.failed} failed`) : "";
  return make("tr", {},
    make("td", {}, link, run.name !== run.run ? make("span", { className: "dim" }, ` ${run.name}`) : "", " ",
      run.tags.map((tag) => make("span", { className: "tag" }, tag))),
    make("td", {}, run.begun ? new Date(run.begun).toLocaleString() : ""),
    make("td", {}, bar, make("span", { className: "dim" }, `${state(run)}, ${run.done} of ${run.units}`), failed),
    make("td", {}, review));
}

async function show() {
  const { ok, status, data } = await ask("api/runs");
  const error = document.getElementById("error");
  error.textContent = ok ? "" : status === 403 ? "This server does not know this page; open the URL on its terminal." : data.error;
  if (ok && JSON.stringify(data) !== before) {
    before = JSON.stringify(data);
    const heads = ["run", "began", "progress", "for people"].map((name) => make("th", {}, name));
    document.getElementById("runs").replaceChildren(data.runs.length
      ? make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, data.runs.map(row)))
      : make("p", { className: "dim" }, "There are no runs in this directory yet. They appear here when they begin."));
  }
  document.getElementById("when").textContent = ok ? `read at ${new Date().toLocaleTimeString()}` : "";
  setTimeout(show, EVERY);
}

show();
