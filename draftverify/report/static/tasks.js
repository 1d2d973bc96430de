// The list of tasks: filtered, sorted and in pages; each opens to its rounds. What is open stays open.
import { detail } from "./detail.js";
import { section } from "./overview.js";
import { count, digits, el, plain, seconds } from "./text.js";

const PAGE = 50;
const MANY = 4; // pipelines; of more a row shows a square each
const OUTCOMES = [["", "all tasks"], ["accepted", "accepted"], ["wrong", "accepted, but wrong"], ["refused", "refused"], ["failed", "failed"], ["waiting", "waiting"], ["abstained", "abstained"], ["differs", "differs from the baseline"], ["open", "not finished"]];
const SORTS = [["place", "in order"], ["slowest", "slowest first"], ["score", "lowest score first"], ["rounds", "most rounds first"]];

/** The list as a section, and a function that loads it again. */
export function tasks(source, run, state) {
  const body = el("tbody", {});
  const pages = el("div", { class: "pages" });
  const names = () => (state.pipeline ? [state.pipeline] : run.pipelines.map((pipeline) => pipeline.name));
  const options = (pairs, chosen) => pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
  const choose = (key, label, pairs) => el("select", { "aria-label": label, onchange: (event) => { state[key] = event.target.value; state.offset = 0; changed(); } }, options(pairs, state[key]));
  let wait = null;
  const search = el("input", { type: "search", placeholder: "task, group or text", "aria-label": "search tasks", value: state.search, oninput: (event) => {
    clearTimeout(wait);
    wait = setTimeout(() => { state.search = event.target.value; state.offset = 0; changed(); }, 150);
  } });
  const head = el("thead", {});
  const node = section("tasks", "Tasks", null,
    el("div", { class: "filters" }, choose("outcome", "outcome", OUTCOMES), choose("sort", "order", SORTS),
      run.pipelines.length > 1 ? choose("pipeline", "pipeline", [["", "any pipeline"], ...run.pipelines.map(({ name }) => [name, plain(name, 60)])]) : null, search),
    el("div", { class: "scroll" }, el("table", { id: "list" }, head, body)), pages);

  let asked = 0;
  async function load() {
    const mine = ++asked;
    const query = { outcome: state.outcome || null, sort: state.sort, pipeline: state.pipeline || null, search: state.search, offset: state.offset, limit: PAGE };
    const found = await source.tasks(query);
    if (mine !== asked) return; // a later question was answered first
    const shown = names();
    const squares = shown.length > MANY;
    head.replaceChildren(el("tr", {}, el("th", { scope: "col" }, "task"), run.groups.length > 1 ? el("th", { class: "narrow-off", scope: "col" }, "group") : null,
      (squares ? ["pipelines"] : shown).map((name) => el("th", { scope: "col" }, name)), el("th", { class: "narrow-off", scope: "col" }, "asks")));
    const before = new Map([...body.querySelectorAll("tr.detail")].map((row) => [row.dataset.task, row]));
    body.replaceChildren();
    for (const row of found.rows) {
      body.append(line(row, shown, squares));
      if (state.open.has(row.task)) body.append(before.get(row.task) ?? opened(row));
    }
    if (!found.rows.length) body.append(el("tr", {}, el("td", { class: "soft" }, "no task is of this kind")));
    const last = Math.min(state.offset + PAGE, found.total);
    const turn = (by, text) => el("button", { disabled: by < 0 ? state.offset === 0 : last >= found.total, onclick: () => { state.offset = Math.max(0, state.offset + by); changed(); } }, text);
    pages.replaceChildren(found.total > PAGE ? turn(-PAGE, "before") : "", found.total > PAGE ? turn(PAGE, "next") : "",
      el("span", { class: "soft small" }, found.total ? `${count(state.offset + 1)}–${count(last)} of ${count(found.total)}` : ""));
    node.dataset.total = found.total;
    return found.version;
  }

  function line(row, shown, squares) {
    const cells = shown.map((name) => row.cells[name] ?? null); // null: not a task of this pipeline's
    return el("tr", {},
      el("td", { class: "id" }, el("button", { class: "plain", "aria-expanded": String(state.open.has(row.task)), onclick: (event) => toggle(row, event.target.closest("tr")) }, row.task)),
      run.groups.length > 1 ? el("td", { class: "narrow-off soft" }, row.group) : null,
      squares ? el("td", {}, el("span", { class: "squares" }, cells.map((cell, index) => cell && el("i", { class: `square ${cell.status}`, title: `${plain(shown[index])}: ${cell.status}${cell.seconds !== undefined ? `, ${seconds(cell.seconds)}` : ""}` }))))
        : cells.map((cell) => el("td", {}, cell && [el("span", { class: `chip ${cell.status}`, title: cell.why ? plain(cell.why) : null }, cell.status === "exhausted" ? "refused" : cell.status),
          cell.wrong ? [" ", el("span", { class: "chip wrong" }, "wrong")] : null, cell.differs ? [" ", el("span", { class: "chip differs" }, "differs")] : null,
          " ", el("span", { class: "soft small whole" }, cell.seconds !== undefined ? seconds(cell.seconds) : "", cell.rounds > 1 ? `, ${cell.rounds} rounds` : "", cell.score !== undefined && cell.solved === undefined ? `, ${digits(cell.score)}` : "")])),
      el("td", { class: "about narrow-off" }, row.about));
  }

  function toggle(row, at) {
    const open = !state.open.has(row.task);
    open ? state.open.add(row.task) : state.open.delete(row.task);
    at.querySelector("button").setAttribute("aria-expanded", String(open));
    if (open) at.after(opened(row));
    else if (at.nextElementSibling?.classList.contains("detail")) at.nextElementSibling.remove();
    state.save();
  }

  function opened(row) {
    const cell = el("td", { colspan: 3 + run.pipelines.length }, el("p", { class: "soft" }, "reading …"));
    const made = el("tr", { class: "detail" }, cell);
    made.dataset.task = row.task;
    source.task(row.task).then(
      (found) => cell.replaceChildren(found ? detail(found, source.review) : elsewhere(run)),
      (error) => cell.replaceChildren(el("p", { class: "note bad" }, `this task cannot be shown: ${error.message}`)));
    return made;
  }

  /** After a look at other tasks: from the first page, and remembered. */
  function changed() {
    state.save();
    return load();
  }

  /** What is open is asked for again, as when a run went on. */
  async function refresh() {
    body.querySelectorAll("tr.detail").forEach((row) => row.remove());
    await load();
  }
  return { node, load, refresh };
}

function elsewhere(run) {
  return el("p", { class: "note" }, "The rounds of this task are not in the file, which holds those of the failed, refused and differing tasks first. All are shown by ", el("code", {}, `draftverify view ${run.path}`));
}
