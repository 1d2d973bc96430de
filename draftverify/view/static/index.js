// The list of runs, read again every few seconds: what each came to, those that hold a text, and two of them compared.
import { ask, make } from "./dom.js";

const EVERY = 2000;
const SCORES = 3; // pipelines of a run whose scores are shown; of more the first in the config's order
let before = "";
let runs = [];
const chosen = new Set(); // names of runs to compare, at most two

function state(run) {
  if (run.finished && !run.waiting) return "finished";
  if (run.waiting && run.done + run.waiting >= run.units) return "waits for people";
  return "not finished";
}

/** What the pipelines of a run came to: how much is solved, and what it cost. */
function scores(run) {
  const line = ({ pipeline, share, what, cost }) => make("div", {}, make("b", {}, share), " ", make("span", { className: "dim" }, [what, cost, pipeline].filter(Boolean).join(" · ")));
  const rest = run.scores.length - SCORES;
  return [...run.scores.slice(0, SCORES).map(line), rest > 0 ? make("div", { className: "dim" }, `and ${rest} more pipeline${rest > 1 ? "s" : ""}`) : ""];
}

function row(run) {
  const link = make("a", { href: `run?run=${encodeURIComponent(run.run)}` }, run.run);
  if (run.problem) {
    return make("tr", {}, make("td", {}, make("b", {}, run.run)), make("td", { colSpan: 4, className: "why" }, run.problem));
  }
  const fill = make("span");
  fill.style.width = `${run.units ? (100 * run.done) / run.units : 0}%`;
  const bar = make("div", { className: run.finished && !run.waiting ? "bar full" : "bar" }, fill);
  const { pending, answered } = run.questions;
  const review = pending || answered
    ? make("a", { href: `review?run=${encodeURIComponent(run.run)}` }, pending ? `decide ${pending}` : `${answered} decided`)
    : "";
  const failed = run.statuses.failed ? make("span", { className: "why" }, `, ${run.statuses.failed} failed`) : "";
  const choice = make("input", { type: "checkbox", checked: chosen.has(run.run), onchange: () => choose(run.run) });
  choice.setAttribute("aria-label", `compare ${run.run}`);
  return make("tr", {},
    make("td", {}, choice, " ", link, run.name !== run.run ? make("span", { className: "dim" }, ` ${run.name}`) : "", " ",
      run.tags.map((tag) => make("span", { className: "tag" }, tag))),
    make("td", {}, run.begun ? new Date(run.begun).toLocaleString() : ""),
    make("td", {}, scores(run)),
    make("td", {}, bar, make("span", { className: "dim" }, `${state(run)}, ${run.done} of ${run.units}`), failed),
    make("td", {}, review));
}

/** Choose a run, or not any more; of three the one that was chosen first is let go. */
function choose(name) {
  if (!chosen.delete(name)) chosen.add(name);
  if (chosen.size > 2) chosen.delete([...chosen][0]);
  draw();
}

const filter = document.getElementById("filter");
const compare = document.getElementById("compare");
filter.oninput = draw;
compare.onclick = compared;

function draw() {
  const sought = filter.value.trim().toLowerCase();
  const shown = runs.filter((run) => [run.run, run.name, ...run.tags, ...run.pipelines].some((text) => text.toLowerCase().includes(sought)));
  const focused = document.activeElement?.getAttribute("aria-label");
  const heads = ["run", "began", "scores", "progress", "for people"].map((name) => make("th", {}, name));
  const words = runs.length ? "No run has this text in its name, its tags or its pipelines." : "There are no runs in this directory yet. They appear here when they begin.";
  document.getElementById("runs").replaceChildren(shown.length
    ? make("table", {}, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, shown.map(row)))
    : make("p", { className: "dim" }, words));
  if (focused?.startsWith("compare ")) document.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
  compare.disabled = chosen.size !== 2;
  compare.textContent = chosen.size === 2 ? `compare ${couple().join(" with ")}` : "choose two runs to compare";
}

/** The two that were chosen, the earlier one first. */
const couple = () => runs.map(({ run }) => run).filter((name) => chosen.has(name)).reverse();

/** What `draftverify compare` says of them. */
async function compared() {
  const [base, other] = couple();
  const { ok, data } = await ask(`api/compare?base=${encodeURIComponent(base)}&other=${encodeURIComponent(other)}`);
  const card = document.getElementById("comparison");
  card.hidden = false;
  if (!ok) {
    card.replaceChildren(make("p", { className: "why" }, data.error));
    return;
  }
  const heads = () => ["", "", "difference [95 %]", "from → to", "pairs", "p"].map((name) => make("th", {}, name));
  const line = (words) => make("tr", {}, make("td", {}, words.sides),
    make("td", {}, make("b", { className: { better: "kept", worse: "why" }[words.said] ?? "dim" }, words.verdict)),
    make("td", {}, words.difference),
    make("td", {}, words.change, words.if_people_solve ? make("div", { className: "dim" }, words.if_people_solve) : ""),
    make("td", {}, words.pairs), make("td", {}, words.p));
  card.replaceChildren(make("div", {},
    data.sides.map(({ label, name, notes }) => make("p", {}, make("b", {}, `${label}  ${name}`), notes.map((note) => make("span", { className: "dim" }, make("br"), note)))),
    data.outcomes.map(({ outcome, how, rows }) => [make("h2", {}, `${outcome}: ${how}`),
      make("table", {}, make("thead", {}, make("tr", {}, heads())), make("tbody", {}, rows.map(line)))]),
    data.explained.map((text) => make("p", { className: "dim" }, text))));
  card.scrollIntoView();
}

async function show() {
  const { ok, status, data } = await ask("api/runs");
  const error = document.getElementById("error");
  error.textContent = ok ? "" : status === 403 ? "This server does not know this page; open the URL on its terminal." : data.error;
  if (ok && JSON.stringify(data) !== before) {
    before = JSON.stringify(data);
    runs = data.runs;
    for (const name of chosen) if (!runs.some(({ run }) => run === name)) chosen.delete(name);
    draw();
  }
  document.getElementById("when").textContent = ok ? `read at ${new Date().toLocaleTimeString()}` : "";
  setTimeout(show, EVERY);
}

show();
