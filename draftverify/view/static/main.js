// The page: overview and tasks from one source, followed while the run goes on, in the reader's theme.
import { redraw } from "./charts.js";
import { keyboard } from "./keyboard.js";
import { config, head, legend, sections } from "./overview.js";
import { sourceOf } from "./source.js";
import { tasks } from "./tasks.js";
import { el, plain } from "./text.js";

const POLL = 2000; // milliseconds
const THEMES = ["system", "light", "dark"];
const DETAILS = "main > section:not(#tasks) details";
const titled = (details) => `${details.closest("section").id} ${details.firstElementChild.textContent}`;

/** Filters and open tasks, kept in the address. */
function remembered() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = {
    outcome: given.get("outcome") ?? "", sort: given.get("sort") ?? "place", pipeline: given.get("pipeline") ?? "", search: given.get("search") ?? "",
    offset: Number(given.get("offset")) || 0, open: new Set(given.getAll("open")),
    linked: [...given.keys()].join() === "open" ? given.get("open") : null, // the task that an address names, and nothing else
  };
  state.save = () => {
    const kept = new URLSearchParams();
    for (const key of ["outcome", "sort", "pipeline", "search", "offset"]) if (state[key] && state[key] !== "place") kept.set(key, state[key]);
    for (const id of state.open) kept.append("open", id);
    history.replaceState(null, "", `#${kept}`);
  };
  return state;
}

function themes() {
  let place = 0;
  const button = el("button", { class: "theme", onclick: () => {
    place = (place + 1) % THEMES.length;
    if (place) document.documentElement.dataset.theme = THEMES[place];
    else delete document.documentElement.dataset.theme;
    button.textContent = `theme: ${THEMES[place]}`;
    redraw();
  } }, `theme: ${THEMES[0]}`);
  return button;
}

async function start() {
  const source = sourceOf();
  const state = remembered();
  const main = document.querySelector("main");
  let run = await source.overview();
  const list = tasks(source, run, state);
  main.replaceChildren(list.node);
  const buttons = [keyboard(list), themes()];

  /** All but the list of tasks, which stays where it is: what is open in it, typed in it or scrolled is not lost. */
  function show() {
    document.title = `${plain(run.name)} · draftverify`;
    const before = sections(run);
    const after = [{ id: "config", name: "Config", node: config(run) }, { id: "legend", name: "Legend", node: legend() }];
    const every = [...before, { id: "tasks", name: "Tasks" }, ...after];
    document.querySelector("header").replaceChildren(head(run, buttons));
    document.querySelector("nav > div").replaceChildren(...every.map(({ id, name }) => el("a", { href: `#${id}`, onclick: (event) => { event.preventDefault(); document.getElementById(id).scrollIntoView(); } }, name)));
    const open = new Set([...document.querySelectorAll(DETAILS)].filter((each) => each.open).map(titled));
    for (const each of [...main.children]) if (each !== list.node) each.remove();
    list.node.before(...before.map(({ node }) => node));
    list.node.after(...after.map(({ node }) => node), el("footer", {}, "Made by draftverify."));
    for (const each of document.querySelectorAll(DETAILS)) each.open ||= open.has(titled(each));
  }

  show();
  let listed = await list.load();
  if (state.linked !== null) await list.reveal(state.linked);
  document.documentElement.dataset.ready = "true";
  performance.mark("ready");
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", redraw);
  addEventListener("beforeprint", () => document.querySelectorAll("section > details").forEach((each) => (each.open = true)));
  if (source.changes) follow();

  /** Ask how far the run is, and show what is new; filters, open tasks and the place on the page stay. */
  async function follow() {
    for (;;) {
      await new Promise((resume) => setTimeout(resume, document.hidden ? 5 * POLL : POLL));
      try {
        const now = await source.changes();
        // The server makes the figures and the list anew in their own time.
        if (now.version === run.version && (listed === undefined || now.version === listed)) continue;
        run = await source.overview();
        show();
        listed = await list.load();
      } catch { /* the server is away for a moment; the next question may be answered */ }
    }
  }
}

start().catch((error) => document.querySelector("main").append(el("p", { class: "note bad" }, `This page cannot be shown: ${error.message}`)));
