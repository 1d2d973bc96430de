// The page on which a person decides: one question at a time, by key or button. What was typed is never thrown away.
import { ask, clean, hasHidden, make } from "./dom.js";

const run = new URLSearchParams(location.search).get("run") ?? "";
const holder = crypto.randomUUID(); // two windows are two reviewers
const SETTLE = 200; // milliseconds in which a key pressed for the last question does not answer the next one
const RENEW = 45000;
const AGAIN = 5000;

const $ = (id) => document.getElementById(id);
let question = null;
let mode = "wait"; // wait, view, edit, reject, stale, busy
let shownAt = 0;
let editor = null; // {field, json, id}
let skipped = [];
let last = { open: 0, held: 0, decided: 0, used: 0 };
let timer = 0;

// What was typed outlives a reload of the tab.
const typed = {
  get: (kind) => sessionStorage.getItem(`${kind} ${run} ${question.id}`),
  set: (kind, text) => sessionStorage.setItem(`${kind} ${run} ${question.id}`, text),
  drop: (id) => ["edit", "reject"].forEach((kind) => sessionStorage.removeItem(`${kind} ${run} ${id}`)),
};

function say(words, kind = "bad") {
  $("message").className = `message ${kind}`;
  $("message").replaceChildren(clean(words));
}

function progress(now) {
  last = now ?? last;
  const mine = question && mode !== "stale" ? 1 : 0;
  const others = Math.max(0, last.held - mine);
  const all = last.open + last.decided;
  $("counts").textContent = `${last.decided} of ${all} decided` + (others ? ` · ${others} with others` : "")
    + (skipped.length ? ` · ${skipped.length} skipped` : "");
  $("progress").firstElementChild.style.width = `${all ? (100 * last.decided) / all : 0}%`;
  $("progress").classList.toggle("full", all > 0 && last.open === 0);
}

// Questions

async function next() {
  clearTimeout(timer);
  question = null;
  editor = null;
  mode = "wait";
  actions();
  const { ok, status, data } = await ask("api/claim", { run, holder, skipped });
  if (!ok) {
    failed(status, data);
    timer = setTimeout(next, AGAIN);
    return;
  }
  say("");
  question = data.question;
  mode = question ? "view" : "wait";
  shownAt = performance.now();
  progress(data.progress);
  question ? draw() : nothing();
  actions();
  scrollTo(0, 0);
}

function nothing() {
  const { open, held, decided } = last;
  const words = [];
  if (skipped.length && open) words.push(`You skipped ${skipped.length}; they are still open.`);
  if (held) words.push(`${held} ${held === 1 ? "is" : "are"} with other reviewers.`);
  if (!open) words.push(decided
    ? `All is decided. The same draftverify run command goes on with ${decided === 1 ? "the answer" : `the ${decided} answers`}.`
    : "Nothing waits for a person.");
  $("question").replaceChildren(make("div", { className: "card", id: "done" }, words.map((each) => make("p", {}, each))));
  timer = setTimeout(next, AGAIN); // what a run asks meanwhile, and what others let go of
}

function fields(pairs) {
  const rows = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return make("dl", {}, rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

// A run's words for what stood in the way.
const TROUBLES = {
  reject: "the verifier refused what was drafted", error: "a check crashed", timeout: "a check ran out of time",
  abstain: "the verifier could not tell", exhausted: "nothing more was drafted",
};

const number = (score) => (score === null ? "" : String(Number(score.toPrecision(4))));

function draw() {
  const { candidate, drafts } = question;
  const task = make("section", { className: "card" }, make("h2", {}, "Task"),
    fields([["task", `${question.task}${question.group ? `  ${question.group}` : ""}`], ["inner task", question.asking],
      ["pipeline", question.pipeline], ...question.input]),
    question.accepted ? [make("h2", {}, "Accepted so far"), make("pre", {}, question.accepted)] : "");
  const verdict = make("section", { className: "card" }, make("h2", {}, candidate ? "Candidate" : "No candidate"),
    candidate ? make("pre", { className: "candidate", id: "candidate" }, candidate.text)
      : make("p", {}, "Nothing was drafted that could be accepted. An edit writes one."),
    make("h2", {}, "Why you are asked"),
    fields([["why", question.trouble.map((each) => TROUBLES[each] ?? each).join("; ")], ["failure", question.failure], ["reason", candidate?.reason],
      ["feedback", candidate?.feedback], ["score", candidate && number(candidate.score)], ["caveat", candidate?.caveat]]),
    candidate?.hidden ? make("p", { className: "dim" }, "A secret in it is shown as ***. Accept takes it as it was drafted.") : "");
  const earlier = drafts.length ? make("details", { className: "card", open: drafts.length <= 4 },
    make("summary", {}, `Refused drafts: ${drafts.length + question.earlier}`),
    question.earlier ? make("p", { className: "dim" }, `the last ${drafts.length} of them`) : "", drafts.map(draft)) : "";
  $("question").dataset.id = question.id;
  $("question").replaceChildren(task, make("div", {}, verdict, make("div", { id: "editor" }), earlier));
}

function draft(each) {
  const kinds = { pass: "kept", kept: "kept", reject: "refused", refused: "refused" };
  const one = each.parts.length === 1;
  const text = make("pre", {}, each.parts.map((part) => one ? part.text
    : [make("span", { className: kinds[part.verdict] ?? "open", title: part.verdict }, part.text), each.worded ? "" : "\n"]));
  const said = each.parts.find((part) => part.reason || part.feedback) ?? each.parts[0];
  const head = make("p", {}, make("span", { className: "dim" }, `round ${each.round}`),
    one ? make("span", { className: "why" }, each.parts[0].verdict === "reject" ? "refused" : each.parts[0].verdict) : "",
    [said.reason, said.feedback].filter(Boolean).map((words) => make("span", {}, words)),
    said.score === null ? "" : make("span", { className: "dim" }, `score ${number(said.score)}`));
  if (each.edit !== null && each.edit === question.candidate?.edit) {
    head.append(make("span", { className: "tag" }, "the candidate"));
  } else if (each.edit !== null) {
    const button = make("button", { className: "small", type: "button" }, "edit this one");
    button.addEventListener("click", () => mode === "view" && edit(each));
    head.append(button);
  }
  return make("div", { className: "draft" }, head, text);
}

// Answers

async function answer(kind, more = {}) {
  if (performance.now() - shownAt < SETTLE) return;
  const from = mode;
  mode = "busy";
  actions();
  const { id } = question;
  const { ok, status, data } = await ask("api/answer", { run, holder, id, answer: kind, ...more });
  if (ok) {
    if (kind === "skip") skipped.push(id);
    typed.drop(id);
    progress(data.progress);
    await next();
    return;
  }
  mode = from;
  if (data.stale) stale(data.error);
  else failed(status, data);
  actions();
}

function failed(status, data) {
  if (status === 0) say("The server does not answer. Nothing was taken; what you typed is still here. Try again.");
  else if (status === 403) say("This server does not know this page: it was started anew. Open the URL on its terminal; "
    + "what you typed stays in this tab.");
  else say(data.error ?? "The server failed.");
}

function stale(why) {
  mode = "stale";
  if (editor) editor.field.readOnly = true;
  say(`Your answer was not taken: ${why}.${editor && editor.field.value ? " What you typed is kept below; copy what you need." : ""}`, "warn");
  progress();
  actions();
}

function edit(from) {
  const candidate = from ?? question.candidate;
  const json = candidate ? candidate.json : false;
  const began = candidate?.edit ?? "";
  mode = "edit";
  const field = make("textarea", { spellcheck: false, id: "text", value: (from ? null : typed.get("edit")) ?? began });
  field.setAttribute("aria-label", "The item in the candidate's place");
  field.rows = Math.min(30, field.value.split("\n").length + 2);
  const note = make("p", { className: "note dim", id: "note" });
  const kind = make("input", { type: "checkbox", id: "json", checked: json });
  editor = { field, json: () => kind.checked, kind: "edit" };
  const check = () => {
    typed.set("edit", field.value);
    const wrong = kind.checked ? problem(field.value) : "";
    field.classList.toggle("invalid", wrong !== "");
    const hidden = candidate?.hidden ? "A secret stands as *** here, and would be kept so. " : "";
    const marks = hasHidden(field.value) ? "It holds characters that are not seen (� above). " : "";
    note.textContent = wrong || hidden + marks;
    return wrong === "";
  };
  editor.check = check;
  field.addEventListener("input", check);
  kind.addEventListener("change", check);
  const label = make("label", { className: "dim" }, kind, " a JSON value, not a text");
  $("editor").replaceChildren(make("section", { className: "card" }, make("h2", {}, json ? "Edit the JSON" : "Edit the text"),
    field, note, candidate ? "" : label));
  check();
  actions();
  field.focus();
  field.scrollIntoView({ block: "nearest" });
}

function problem(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `not JSON yet: ${error.message}`;
  }
}

function reject() {
  mode = "reject";
  const field = make("input", { type: "text", id: "text", value: typed.get("reject") ?? "", placeholder: "why, if you like" });
  field.setAttribute("aria-label", "Why it is rejected");
  field.addEventListener("input", () => typed.set("reject", field.value));
  editor = { field, kind: "reject" };
  $("editor").replaceChildren(make("section", { className: "card" }, make("h2", {}, "Reject, and end the task"), field));
  actions();
  field.focus();
  field.scrollIntoView({ block: "nearest" });
}

function send() {
  if (editor.kind === "reject") return answer("reject", { note: editor.field.value.trim() });
  if (!editor.check()) return undefined;
  return answer("edit", editor.json() ? { json: editor.field.value } : { text: editor.field.value });
}

function leave() {
  mode = "view";
  editor = null;
  $("editor").replaceChildren();
  actions();
}

function seeSkipped() {
  skipped = [];
  next();
}

// Keys and buttons: the same list makes both.

function choices() {
  if (mode === "view") {
    return [
      question.candidate && ["a", "Accept", () => answer("accept"), "accept"],
      ["e", "Edit", () => edit()],
      ["r", "Reject", reject, "reject"],
      ["s", "Skip", () => answer("skip")],
    ].filter(Boolean);
  }
  if (mode === "edit") return [["Ctrl+Enter", "Send the edit", send, "accept"], ["Escape", "Back", leave]];
  if (mode === "reject") return [["Enter", "Reject", send, "reject"], ["Escape", "Back", leave]];
  if (mode === "stale") return [["n", "Next question", next]];
  if (mode === "wait" && skipped.length && last.open) return [["s", "See the skipped ones", seeSkipped]];
  return [];
}

function actions() {
  $("actions").replaceChildren(...choices().map(([key, name, act, kind]) => {
    const button = make("button", { type: "button", className: kind ?? "" }, name, make("kbd", {}, key));
    button.addEventListener("click", act);
    return button;
  }));
  $("actions").hidden = choices().length === 0;
}

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.altKey || event.isComposing) return;
  const modified = event.ctrlKey || event.metaKey;
  const pressed = modified ? `Ctrl+${event.key}` : event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const writing = ["edit", "reject"].includes(mode) || (mode === "stale" && event.target.matches("textarea, input"));
  const onButton = event.target.matches("button, summary, a") && pressed === "Enter";
  const found = onButton || (writing && event.key.length === 1) ? undefined : choices().find(([key]) => key === pressed);
  if (!found) return;
  event.preventDefault();
  found[2]();
});

// Claims

async function renew() {
  if (!question || mode === "stale" || mode === "busy") return;
  const { id } = question;
  const { ok, data } = await ask("api/claim", { run, holder, id });
  if (question?.id !== id || mode === "stale" || mode === "busy") return;
  if (ok && !data.held) stale(data.why);
  else if (!ok && data.stale) stale(data.error);
}

setInterval(renew, RENEW);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && renew());
addEventListener("pagehide", () => {
  if (!question || mode === "stale") return;
  fetch("api/claim", {
    method: "POST", keepalive: true, headers: { "content-type": "application/json" },
    body: JSON.stringify({ run, holder, id: question.id, release: true }),
  });
});
addEventListener("pageshow", (event) => event.persisted && next());

$("title").textContent = `Review ${clean(run)}`;
$("home").href = `run?run=${encodeURIComponent(run)}`;
next();
