// One task, opened: what it asks, and for every pipeline the rounds, drafts beside each other with what was said of them.
import { code, languageOf } from "./code.js";
import { count, digits, el, seconds, table } from "./text.js";

const FIRST = 6; // drafts of a round that are shown before "show all"
const ROUNDS = [5, 2]; // rounds of a record that are, the first and the last of them
const PIECES = 1500; // of a text that are compared; the time of a comparison grows with their product
const MARK = { kept: "✓", refused: "✗", corrected: "↻", spliced: "+", held: "~", cut: "·", left: "·", passed: "·", unjudged: "?" };
const FATE = { kept: "kept", refused: "refused", corrected: "corrected", held: "held", cut: "cut off", left: "not judged", passed: "not chosen", unjudged: "not judged" };

/** A task's detail as nodes; `review` is the address of the page on which people decide, where there is one. */
export function detail(task, review = null) {
  const input = Object.entries(task.input);
  const labels = Object.entries(task.expected ?? {});
  return el("div", {},
    el("details", { open: input.every(([, value]) => value.length < 400) }, el("summary", {}, "What the task asks"),
      input.map(([name, value]) => el("div", {}, el("div", { class: "soft small" }, name), code(el("pre", { class: "box" }), value)))),
    labels.length ? el("div", {}, el("div", { class: "soft small" }, "What is expected"), labels.map(([name, value]) => el("div", {}, el("div", { class: "soft small" }, name), code(el("pre", { class: "box expected" }), value)))) : null,
    task.pipelines.length > 1 ? sideBySide(task.pipelines) : null,
    task.pipelines.map((pipeline) => record(pipeline, task, review)));
}

let chosen = []; // the two pipelines whose answers somebody chose to see beside each other, in every task

/** Two pipelines' answers beside each other: the chosen two, else the first two that differ, with what differs marked. */
function sideBySide(pipelines) {
  const names = pipelines.map(({ name }) => name);
  const texts = new Map(pipelines.map((pipeline) => [pipeline.name, ended(pipeline)]));
  const couples = names.flatMap((left, place) => names.slice(place + 1).map((right) => [left, right]));
  const parted = couples.find(([left, right]) => texts.get(left) !== texts.get(right));
  const pair = chosen.length && chosen.every((name) => texts.has(name)) ? [...chosen] : [...(parted ?? couples[0])];
  const columns = el("div", { class: "answers" });
  const choose = (side, label) => el("select", { "aria-label": label, onchange: (event) => { pair[side] = event.target.value; chosen = pair; show(); } },
    names.map((name) => el("option", { value: name, selected: name === pair[side] }, name)));
  const choices = [choose(0, "answer on the left"), choose(1, "answer on the right")];
  const show = () => {
    const words = pair.map((name) => texts.get(name).split(/(?<=\s)(?=\S)/));
    const parts = difference(...words);
    columns.replaceChildren(...["del", "add"].map((own, side) => el("div", {},
      choices[side], " ", facts(pipelines.find(({ name }) => name === pair[side])),
      el("pre", { class: "box" }, parts.filter(({ kind }) => kind === "same" || kind === own).map(({ kind, text }) => (kind === own ? [el("mark", {}, text.trimEnd()), text.slice(text.trimEnd().length)] : text)), words[side].slice(PIECES).join("")))));
  };
  show();
  return el("details", { class: "beside", open: Boolean(parted) }, el("summary", {}, parted ? "Answers side by side" : "Answers side by side: all are the same"), columns);
}

/** What a pipeline came to: its answer, else the best that was refused, else why there is none. */
function ended({ status, value, words, refused, reason, failure }) {
  const answer = words ?? value;
  if (answer !== undefined && answer !== "null") return answer;
  return refused ? refused.text : failure?.said ?? reason ?? status;
}

/** How a pipeline ended, and its figures. */
function facts(pipeline) {
  const { scores = {} } = pipeline;
  return [el("span", { class: `chip ${pipeline.status}` }, pipeline.status),
    pipeline.differs ? [" ", el("span", { class: "chip differs" }, "differs")] : null, " ",
    el("span", { class: "soft small" }, [
      pipeline.seconds !== undefined ? seconds(pipeline.seconds) : null,
      pipeline.cost,
      pipeline.score !== undefined ? `score ${digits(pipeline.score)}` : null,
      pipeline.support !== undefined ? `support ${digits(pipeline.support)}` : null,
      pipeline.attempt ? `attempt ${pipeline.attempt + 1}` : null,
      ...Object.entries(scores).map(([name, value]) => `${name} ${value === null ? "has no say" : digits(value)}`),
    ].filter(Boolean).join(" · "))];
}

function record(pipeline, task, review = null) {
  return el("div", { class: "pipeline" },
    el("h3", {}, pipeline.name, " ", facts(pipeline)),
    pipeline.reason && !pipeline.failure ? el("p", { class: "small" }, pipeline.reason) : null,
    pipeline.question ? el("p", { class: "note" }, pipeline.question.state === "pending" ? ["Waits for a person. ", review && el("a", { href: review }, "Decide")] : `A person said ${pipeline.question.answer}${pipeline.question.note ? `: ${pipeline.question.note}` : ""}; the next run takes it up.`) : null,
    pipeline.failure ? el("div", { class: "note bad" }, el("div", { class: "text" }, pipeline.failure.said), pipeline.failure.traceback ? el("details", {}, el("summary", {}, "traceback"), el("pre", { class: "box" }, pipeline.failure.traceback)) : null) : null,
    pipeline.caveats ? el("p", { class: "small soft" }, pipeline.caveats) : null,
    unmet(pipeline),
    pipeline.kind === "tokens" ? stream(pipeline) : rounds(pipeline, task),
    inner(pipeline.inner, task),
    answer(pipeline));
}

/** Where the answer is not as labelled: text by words, objects by key. */
function unmet(pipeline) {
  return (pipeline.unmet ?? []).map(({ field, parts }) => el("div", { class: "unmet" },
    el("div", { class: "soft small" }, `${field}: `, el("del", {}, "expected"), " ", el("ins", {}, "given")),
    el("div", { class: "text" }, parts.map(([kind, text]) => el({ same: "span", missing: "del", extra: "ins" }[kind], {}, text)))));
}

/** What was said to models in a round, and what they said: closed, since it is long. */
function exchanges(round) {
  if (!round.exchanges) return null;
  const tokens = round.exchanges.flatMap((one) => [one.tokens_in ?? 0, ...(one.replies ?? []).map((reply) => reply.tokens ?? 0)]).reduce((sum, more) => sum + more, 0);
  const facts = (one, reply) => [
    reply.item !== undefined ? `#${reply.item}` : null,
    reply.tokens ? `${count(reply.tokens)} tokens` : null,
    reply.finish && reply.finish !== "stop" ? reply.finish : null,
    reply.cached ? "bought before" : null,
    reply.id ?? null,
  ].filter(Boolean).join(" · ");
  return el("details", { class: "exchanges" }, el("summary", {}, `asked of models: ${count(round.exchanges.length)} request${round.exchanges.length > 1 ? "s" : ""}${tokens ? `, ${count(tokens)} tokens` : ""}`),
    round.exchanges.map((one) => el("div", { class: "exchange" },
      el("div", { class: "head" }, el("b", {}, one.who), " ", el("span", { class: "soft" }, [one.model, one.tokens_in ? `${count(one.tokens_in)} tokens in` : null, one.tokens_in_cached ? `${count(one.tokens_in_cached)} of them cached` : null, one.cost].filter(Boolean).join(" · "))),
      one.asked.map((turn) => el("div", { class: "turn" }, el("div", { class: "soft small" }, turn.role || "prompt"), el("pre", { class: "box" }, turn.content))),
      (one.replies ?? []).map((reply) => el("div", { class: "turn reply" }, el("div", { class: "soft small" }, ["reply", facts(one, reply)].filter(Boolean).join(" ")), el("pre", { class: "box" }, reply.text))),
      one.failure ? el("div", { class: "note bad" }, one.failure) : null)));
}

function answer(pipeline) {
  const text = pipeline.words ?? pipeline.value;
  const shown = [];
  if (text !== undefined && text !== "null" && pipeline.kind !== "tokens") shown.push(el("details", { open: text.length < 2000 && pipeline.kind === "drafts" && !text.includes("\n") }, el("summary", {}, "Answer"), code(el("pre", { class: "box" }), text)));
  if (pipeline.refused && pipeline.status !== "accepted") shown.push(el("details", {}, el("summary", {}, "The best that was refused"), code(el("pre", { class: "box" }), pipeline.refused.text), el("p", { class: "small" }, [pipeline.refused.reason, pipeline.refused.feedback].filter(Boolean).join(": "))));
  if (pipeline.differs) shown.push(el("details", {}, el("summary", {}, `Where it differs from the baseline${pipeline.differs.position === null ? "" : `: position ${pipeline.differs.position}`}`), table(["baseline", "this"], [[el("pre", {}, pipeline.differs.expected), el("pre", {}, pipeline.differs.got)]])));
  return shown;
}

/** Tokens as one text: each coloured by what became of it, rounds parted by bars. */
function stream(pipeline) {
  const line = el("div", { class: "stream" });
  pipeline.rounds.forEach((round, place) => {
    if (pipeline.left_out?.[0] === place) line.append(el("span", { class: "soft" }, ` … ${pipeline.left_out[1]} rounds are not shown … `));
    if (place) line.append(el("span", { class: "bar", title: heading(round) }, "│"));
    for (const item of round.items) line.append(el("span", { class: `tok ${item.fate}`, title: `round ${round.index}: ${FATE[item.fate]}${item.check?.reason ? `, ${item.check.reason}` : ""}` }, item.text));
    for (const text of round.spliced ?? []) line.append(el("span", { class: "tok spliced", title: `round ${round.index}: the verifier's own` }, text));
  });
  const remarks = ({ source, failure }) => [source && `by ${source}`, failure !== pipeline.failure?.said && failure].filter(Boolean).join(" · ");
  const told = pipeline.rounds.filter((round) => round.steps || remarks(round));
  return [line, told.map((round) => el("div", { class: "small soft" }, `round ${round.index}: ${remarks(round)}`, after(round)))];
}

function rounds(pipeline, task) {
  const made = pipeline.rounds.map((round, place) => () => el("div", { class: "round" },
    pipeline.left_out?.[0] === place ? el("p", { class: "soft" }, `${pipeline.left_out[1]} rounds are not shown here`) : null,
    el("div", { class: "head" }, el("b", {}, `Round ${round.index}`), " · ", heading(round)),
    round.failure && round.failure !== pipeline.failure?.said ? el("div", { class: "note bad" }, round.failure) : null,
    pipeline.kind === "steps" ? steps(round) : drafts(round, pipeline.rounds[place - 1], task),
    after(round),
    exchanges(round),
    round.notes ? el("details", {}, el("summary", {}, "notes"), el("pre", { class: "box" }, round.notes)) : null,
    inner(round.nested, task)));
  const [first, last] = ROUNDS;
  if (made.length <= first + last + 1) return el("div", {}, made.map((make) => make()));
  const between = made.slice(first, made.length - last);
  const more = el("button", { onclick: () => more.replaceWith(...between.map((make) => make())) }, `show the ${between.length} rounds between`);
  return el("div", {}, made.slice(0, first).map((make) => make()), more, made.slice(made.length - last).map((make) => make()));
}

/** Inner tasks: of a round, or of the one that is under way where the task waits for them. */
function inner(records, task) {
  return (records ?? []).map((one) => el("details", {}, el("summary", {}, `inner task ${one.task}: ${one.status}`), record({ name: one.task, ...one }, task)));
}

function heading(round) {
  const accepted = round.items.filter((item) => item.check && ["pass", "reject"].includes(item.check.verdict));
  if (round.undrafted) return "not drafted, to the fallback at once";
  return [
    `drafted ${count(round.drafted ?? round.items.length)}${round.asked !== undefined ? ` of ${count(round.asked)} asked` : ""}${round.source ? ` by ${round.source}` : ""}`,
    round.tries ? `try ${round.tries + 1}` : null,
    accepted.length && !round.drafted ? `passed ${accepted.filter((item) => item.check.verdict === "pass").length} of ${accepted.length} checked` : null,
    round.by ? `judged by a ${round.by}` : null,
    `draft ${seconds(round.draft)}, verify ${seconds(round.verify)}`,
    round.batch ? `in a pass of ${round.batch}` : null,
    round.cost,
  ].filter(Boolean).join(" · ");
}

function after(round) {
  if (!round.steps) return null;
  return el("p", { class: "small" }, round.steps.map((step, index) => [index ? ", " : "→ ", `on ${step.on}: ${step.do.replaceAll("_", " ")} (clause ${step.clause + 1})`]));
}

function steps(round) {
  const said = (item) => [item.why ?? item.check?.reason, item.check?.feedback, item.instead !== undefined ? `in its place: ${item.instead}` : null].filter(Boolean).join(" · ");
  const lines = round.items.map((item) => el("li", { class: item.fate }, el("span", { class: "mark", title: FATE[item.fate] }, MARK[item.fate]), el("span", { class: "mono text" }, item.text), el("span", { class: "soft small text" }, item.fate === "kept" ? item.check?.reason ?? "" : said(item))));
  const spliced = (round.spliced ?? []).map((text) => el("li", { class: "spliced" }, el("span", { class: "mark", title: "the verifier's own" }, MARK.spliced), el("span", { class: "mono text" }, text), el("span", { class: "soft small" }, "the verifier's own")));
  const makers = [...lines, ...spliced].map((line) => () => line);
  if (!makers.length) return el("p", { class: "soft small" }, "nothing was drafted");
  const list = el("ol", { class: "steps" });
  list.append(...lines.slice(0, 40), ...spliced);
  if (lines.length > 40) list.append(el("li", {}, el("span", {}), el("button", { onclick: (event) => event.target.closest("li").replaceWith(...lines.slice(40)) }, `show ${lines.length - 40} more`)));
  return list;
}

/** Drafts beside each other; those that were kept, and those of which something was said, come first. */
function drafts(round, before, task) {
  const order = round.items.map((item, index) => ({ item, index: item.at ?? index }));
  const weight = ({ item }) => (["kept", "corrected", "held"].includes(item.fate) ? 0 : item.fate === "refused" ? 1 : 2);
  if (order.length > FIRST) order.sort((left, right) => weight(left) - weight(right) || left.index - right.index);
  const bases = basesFor(round, before, task);
  const cards = order.map(({ item, index }) => () => draft(item, index, bases));
  for (const text of round.spliced ?? []) cards.unshift(() => el("div", { class: "draft corrected" }, el("div", { class: "head" }, el("span", { class: "chip spliced" }, "the verifier's own")), el("pre", { class: "body" }, text)));
  if (!cards.length) return el("p", { class: "soft small" }, "nothing was drafted");
  const grid = el("div", { class: "drafts" }, cards.slice(0, FIRST).map((make) => make()));
  const missing = round.drafted ? el("p", { class: "soft small" }, `${count(round.drafted - round.items.length)} more drafts of this round are not in this page`) : null;
  const more = cards.length > FIRST ? el("button", { onclick: () => { grid.append(...cards.slice(FIRST).map((make) => make())); more.remove(); } }, `show all ${cards.length} drafts`) : null;
  return [grid, more, missing];
}

/** What a draft can be compared with: the refused one before it, or a text of the task that it shares lines with. */
function basesFor(round, before, task) {
  const found = [];
  const refused = before?.items.filter((item) => item.text.includes("\n")) ?? [];
  if (refused.length) found.push(["the round before", (index) => (refused[index] ?? refused[refused.length - 1]).text]);
  for (const [name, value] of Object.entries(task.input)) if (value.includes("\n")) found.push([`the task's ${name}`, () => value]);
  return found;
}

function draft(item, index, bases) {
  const check = item.check ?? {};
  const body = el("div", {});
  const near = item.text.includes("\n") ? bases.filter(([, text]) => text(index) !== item.text && alike(text(index), item.text) >= 0.4) : [];
  near.sort((left, right) => (left[0] === "the round before" ? -1 : 0) - (right[0] === "the round before" ? -1 : 0) || alike(right[1](index), item.text) - alike(left[1](index), item.text));
  const show = (base) => body.replaceChildren(base ? compared(base[1](index), item.text) : code(el("pre", { class: "body" }), item.text));
  show(near[0]);
  const choose = near.length ? el("select", { "aria-label": "compare with", onchange: (event) => show(near[event.target.value]) },
    near.map(([name], place) => el("option", { value: place }, `changes to ${name}`)), el("option", { value: -1 }, "whole text")) : null;
  const said = [item.why, check.reason].filter((text, place, every) => text && every.indexOf(text) === place).join(" · ");
  return el("div", { class: `draft ${item.fate}` },
    el("div", { class: "head" }, el("b", {}, `#${index}`), el("span", { class: `chip ${item.fate}` }, FATE[item.fate]),
      check.verdict && !["pass", "reject", "unchecked"].includes(check.verdict) ? el("span", { class: `chip ${check.verdict}` }, check.verdict) : null,
      check.stage ? el("span", { class: "soft" }, check.stage) : null,
      check.score !== undefined ? el("span", { class: "soft" }, `score ${digits(check.score)}`) : null,
      item.parent !== undefined && item.parent >= 0 ? el("span", { class: "soft" }, `after #${item.parent}`) : null, choose),
    body.firstChild ? body : null,
    said || check.feedback || check.caveat || item.instead !== undefined || check.correction !== undefined ? el("div", { class: "said" },
      said ? el("div", { class: "text" }, said) : null,
      check.feedback ? el("pre", {}, check.feedback) : null,
      check.caveat ? el("div", { class: "text" }, `caveat: ${check.caveat}`) : null,
      item.instead !== undefined ? el("div", { class: "text" }, `in its place: ${item.instead}`) : check.correction !== undefined ? el("div", { class: "text" }, `read as: ${check.correction}`) : null) : null);
}

/** How many lines two texts share, of the longer one's: 0 to 1. */
function alike(left, right) {
  const [a, b] = [left.split("\n"), right.split("\n")];
  const own = new Set(a);
  return b.filter((line) => own.has(line)).length / Math.max(a.length, b.length);
}

/** The pieces of two texts, lines or words: [{kind: "same" | "del" | "add", text}], by their longest common subsequence. */
export function difference(left, right) {
  const [before, now] = [left.slice(0, PIECES), right.slice(0, PIECES)];
  let start = 0;
  while (start < before.length && start < now.length && before[start] === now[start]) start++;
  let end = 0;
  while (end < before.length - start && end < now.length - start && before[before.length - 1 - end] === now[now.length - 1 - end]) end++;
  const [a, b] = [before.slice(start, before.length - end), now.slice(start, now.length - end)];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  }
  const found = before.slice(0, start).map((text) => ({ kind: "same", text }));
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { found.push({ kind: "same", text: a[i++] }); j++; }
    else if (i < a.length && (j === b.length || longest[(i + 1) * width + j] >= longest[i * width + j + 1])) found.push({ kind: "del", text: a[i++] });
    else found.push({ kind: "add", text: b[j++] });
  }
  return [...found, ...before.slice(before.length - end).map((text) => ({ kind: "same", text }))];
}

/** What changed, with three lines around it. */
function compared(left, right) {
  const lines = difference(left.split("\n"), right.split("\n"));
  const near = new Set();
  lines.forEach((line, index) => line.kind !== "same" && [-3, -2, -1, 0, 1, 2, 3].forEach((step) => near.add(index + step)));
  const made = el("pre", { class: "body diff" });
  const language = languageOf(right);
  let skipped = 0;
  const gap = () => { if (skipped) made.append(el("span", { class: "gap" }, `${skipped} equal line${skipped > 1 ? "s" : ""}`)); skipped = 0; };
  lines.forEach((line, index) => {
    if (!near.has(index)) { skipped++; return; }
    gap();
    made.append(el("span", { class: line.kind }, `${{ add: "+", del: "−", same: " " }[line.kind]} `, language ? code(el("span"), line.text, language) : line.text));
  });
  gap();
  return made;
}
