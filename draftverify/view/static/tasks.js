// The list of tasks: filtered, sorted and in pages; each opens to its rounds. What is open stays open.
import { detail } from "./detail.js";
import { section } from "./overview.js";
import { cellOf } from "./source.js";
import { count, digits, el, plain, seconds, shortened, typed } from "./text.js";

const PAGE = 50;
const MANY = 4; // pipelines; of more a row shows a square each
const WRONG_NAMED = 2; // of those that were wrong
const OUTCOMES = [["", "all tasks"], ["accepted", "accepted"], ["wrong", "accepted, but wrong"], ["refused", "refused"], ["failed", "failed"], ["waiting", "waiting"], ["abstained", "abstained"], ["differs", "differs from the baseline"], ["open", "not finished"]];
const SORTS = [["place", "in order"], ["slowest", "slowest first"], ["score", "lowest score first"], ["rounds", "most rounds first"]];
const UNDER_WAY = ["open", "waiting"];

/** The list as a section, and a function that loads it again; what an address asks for and there is not is left out. */
export function tasks(source, run, state) {
  if (!OUTCOMES.some(([value]) => value === state.outcome)) state.outcome = "";
  if (!SORTS.some(([value]) => value === state.sort)) state.sort = "place";
  if (!run.pipelines.some(({ name }) => name === state.pipeline)) state.pipeline = "";
  if (!(Number.isSafeInteger(state.offset) && state.offset >= 0)) state.offset = 0;
  const body = el("tbody", {});
  const pages = el("div", { class: "pages" });
  const names = () => (state.pipeline ? [state.pipeline] : run.pipelines.map((pipeline) => pipeline.name));
  const options = (pairs, chosen) => pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
  const choose = (key, label, pairs) => el("select", { "aria-label": label, onchange: (event) => { state[key] = event.target.value; state.offset = 0; changed(); } }, options(pairs, state[key]));
  let wait = null;
  const search = el("input", { type: "search", placeholder: "task, group, text, answer or reason", "aria-label": "search tasks", value: state.search, oninput: (event) => {
    clearTimeout(wait);
    wait = setTimeout(() => { state.search = event.target.value; state.offset = 0; changed(); }, 150);
  } });
  const head = el("thead", {});
  const node = section("tasks", "Tasks", null,
    el("div", { class: "filters" }, choose("outcome", "outcome", OUTCOMES), choose("sort", "order", SORTS),
      run.pipelines.length > 1 ? choose("pipeline", "pipeline", [["", "any pipeline"], ...run.pipelines.map(({ name }) => [name, plain(name)])]) : null, search),
    el("div", { class: "scroll" }, el("table", { id: "list" }, head, body)), pages);

  let asked = 0;
  let entries = new Map(); // task → its row, its line, and its rounds where they are open
  let current = null; // the task that keys go on from

  /** Ask for the page of the list that the filters want; what has not changed on it stays as it stands. */
  async function load() {
    const mine = ++asked;
    const query = { outcome: state.outcome || null, sort: state.sort, pipeline: state.pipeline || null, search: state.search, offset: state.offset, limit: PAGE };
    const found = await source.tasks(query);
    if (mine !== asked) return; // a later question was answered first
    if (state.offset && state.offset >= found.total) {
      state.offset = 0;
      return load();
    }
    const shown = names();
    const squares = shown.length > MANY;
    head.replaceChildren(el("tr", {}, el("th", { scope: "col" }, "task"), run.groups.length > 1 ? el("th", { class: "narrow-off", scope: "col" }, "group") : null,
      (squares ? ["pipelines"] : shown).map((name) => el("th", { scope: "col" }, name)), el("th", { class: "narrow-off", scope: "col" }, "asks")));
    entries = new Map(found.rows.map((row) => [row.task, entry(row, shown, squares)]));
    const lines = [...entries.values()].flatMap((each) => [each.line, each.detail].filter(Boolean));
    if (!lines.length) lines.push(el("tr", {}, el("td", { class: "soft" }, "no task is of this kind")));
    if (lines.length !== body.children.length || lines.some((each, place) => each !== body.children[place])) body.replaceChildren(...lines);
    const last = Math.min(state.offset + PAGE, found.total);
    const turn = (by, text) => el("button", { disabled: by < 0 ? state.offset === 0 : last >= found.total, onclick: () => { state.offset = Math.max(0, state.offset + by); changed(); } }, text);
    pages.replaceChildren(found.total > PAGE ? turn(-PAGE, "before") : "", found.total > PAGE ? turn(PAGE, "next") : "",
      el("span", { class: "soft small" }, found.total ? `${count(state.offset + 1)}–${count(last)} of ${count(found.total)}` : ""));
    node.dataset.total = found.total;
    return found.version;
  }

  /** A row's line and rounds: those that stand there, where nothing of it is new. */
  function entry(row, shown, squares) {
    const text = JSON.stringify([row, shown]);
    const known = entries.get(row.task);
    const made = known?.text === text ? known : { text, row, line: line(row, shown, squares), detail: known?.detail };
    if (!state.open.has(row.task)) made.detail = null;
    else if (!made.detail) made.detail = opened(row);
    else if (made !== known || Object.values(row.cells).some(({ status }) => UNDER_WAY.includes(status))) read(row, made.detail);
    return made;
  }

  function line(row, shown, squares) {
    const cells = shown.map((name) => cellOf(row, name));
    return el("tr", {},
      el("td", { class: "id" }, el("button", { class: "plain", "aria-expanded": String(state.open.has(row.task)), onclick: () => toggle(row.task) }, row.task)),
      run.groups.length > 1 ? el("td", { class: "narrow-off soft" }, row.group) : null,
      squares ? el("td", {}, el("span", { class: "squares" }, cells.map((cell, index) => cell && el("i", { class: `square ${cell.wrong ? "wrong" : cell.status}`, title: `${plain(shown[index])}: ${cell.status}${cell.wrong ? " and wrong" : ""}${cell.seconds !== undefined ? `, ${seconds(cell.seconds)}` : ""}` }))), wrongOnes(shown.filter((name, index) => cells[index]?.wrong)))
        : cells.map((cell) => el("td", {}, cell && [el("span", { class: `chip ${cell.status}`, title: cell.why ? plain(cell.why) : null }, cell.status),
          cell.wrong ? [" ", el("span", { class: "chip wrong" }, "wrong")] : null, cell.differs ? [" ", el("span", { class: "chip differs" }, "differs")] : null,
          " ", el("span", { class: "soft small whole" }, cell.seconds !== undefined ? seconds(cell.seconds) : "", cell.rounds > 1 ? `, ${cell.rounds} rounds` : "", cell.score !== undefined && cell.solved === undefined ? `, ${digits(cell.score)}` : "")])),
      el("td", { class: "about narrow-off" }, row.about));
  }

  function toggle(task) {
    const own = entries.get(task);
    const open = !state.open.has(task);
    if (open) {
      state.open.add(task);
      own.detail = opened(own.row);
      own.line.after(own.detail);
    } else {
      state.open.delete(task);
      own.detail?.remove();
      own.detail = null;
    }
    current = task;
    buttonOf(own).setAttribute("aria-expanded", String(open));
    state.save();
  }

  const buttonOf = (entry) => entry.line.querySelector("button");

  /** To the next task of the page, or the one before (by −1); where the one that is left is open, it opens in its place. */
  function step(by) {
    const ids = [...entries.keys()];
    const at = ids.indexOf(current);
    const next = ids[at < 0 ? 0 : Math.min(Math.max(at + by, 0), ids.length - 1)];
    if (next === undefined) return;
    if (next !== current && state.open.has(current) && entries.has(current)) {
      toggle(current);
      if (!state.open.has(next)) toggle(next);
    }
    current = next;
    buttonOf(entries.get(next)).focus({ preventScroll: true });
    entries.get(next).line.scrollIntoView({ block: state.open.has(next) ? "start" : "center" });
  }

  /** To the task of a link; one that is not on the list's first page is searched for. */
  async function reveal(task) {
    if (!entries.has(task)) {
      search.value = state.search = task;
      await load();
    }
    if (!entries.has(task)) return;
    current = task;
    buttonOf(entries.get(task)).focus({ preventScroll: true });
    entries.get(task).line.scrollIntoView();
  }

  /** Close the task that was opened or reached last. */
  function close() {
    if (!state.open.has(current) || !entries.has(current)) return;
    toggle(current);
    buttonOf(entries.get(current)).focus();
  }

  function opened(row) {
    const made = el("tr", { class: "detail" }, el("td", { colspan: 3 + run.pipelines.length }, el("p", { class: "soft" }, "reading …")));
    made.dataset.task = row.task;
    read(row, made);
    return made;
  }

  /** Show a task's rounds; those of a task that goes on are read again, and drawn again where there are new ones. */
  async function read(row, at) {
    const cell = at.firstElementChild;
    try {
      const found = await source.task(row.task);
      const text = JSON.stringify(found);
      if (text === at.read) return;
      at.read = text;
      cell.replaceChildren(found ? detail(found, source.review) : elsewhere(run));
    } catch (error) {
      if (!at.read) cell.replaceChildren(el("p", { class: "note bad" }, `this task cannot be shown: ${error.message}`));
    }
  }

  /** After a look at other tasks: from the first page, and remembered. */
  async function changed() {
    state.save();
    try {
      await load();
    } catch (error) {
      pages.replaceChildren(el("p", { class: "note bad" }, `the tasks cannot be listed: ${error.message}`));
    }
  }

  return { node, load, search, step, close, reveal };
}

/** Who was accepted and wrong, by name where they are few. */
function wrongOnes(names) {
  if (!names.length) return null;
  const rest = names.length - WRONG_NAMED;
  return el("span", { class: "small wrongly" }, ` wrong: ${shortened(names.map((name) => plain(name)), 40).slice(0, WRONG_NAMED).join(", ")}${rest > 0 ? ` and ${rest} more` : ""}`);
}

function elsewhere(run) {
  return el("p", { class: "note" }, "The rounds of this task are not in the file, which holds those of the failed, refused and differing tasks first. All are shown by ", el("code", {}, typed(["draftverify", "view", run.path])));
}
