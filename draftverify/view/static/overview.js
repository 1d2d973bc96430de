// The run as a whole: head, results, charts with their figures, trust, config and legend.
import { COLORS, FEW, draw, flow, picture, positions, roc, speedups, split, stages } from "./charts.js";
import { count, digits, el, figure, measured, percent, plain, seconds, table, times, typed } from "./text.js";

const n = (text) => ({ text, n: true });
const all = (pipeline) => pipeline.rows[pipeline.rows.length - 1];
const POSITIONS = 32; // of a block that the picture shows
const WORD = { gain: "faster", loss: "slower", unclear: "no difference" };

/** The page's sections but the tasks: [{id, name, node}], the charts drawn once they stand in the page. */
export function sections(run) {
  run.pipelines.forEach((pipeline, index) => (pipeline.index = index));
  const made = [
    ["results", "Results", results(run)],
    ["picture", "Cost and quality", costs(run)],
    ["time", "Time", time(run)],
    ["speedup", "Speed-up", speedup(run)],
    ["acceptance", "Acceptance", acceptance(run)],
    ["refused", "Refused", refused(run)],
    ["trust", "Trust", trust(run)],
  ];
  return made.filter(([, , node]) => node).map(([id, name, node]) => ({ id, name, node }));
}

/** A section: heading, a sentence that says what is seen, and what shows it. */
export function section(id, heading, say, ...children) {
  return el("section", { id, "aria-label": heading }, el("h2", {}, heading), say ? el("p", { class: "say" }, say) : null, children);
}

function chart(label, height, option) {
  const element = el("div", { class: "chart", role: "img", "aria-label": label });
  element.style.height = `${height}px`;
  requestAnimationFrame(() => draw(element, height, option));
  return element;
}

const pair = (left, right) => el("div", { class: "pair" }, el("div", {}, left), el("div", {}, right));
const dot = (index) => {
  const made = el("i", { class: "dot", "data-number": index + 1 });
  made.style.background = `var(--c${index % COLORS})`;
  return made;
};
const label = (index, text, more) => el("span", { class: "name" }, dot(index), text.split(/(?<=[@,/])/).map((part) => [part, el("wbr")]), more);
const named = (run, pipeline) => label(pipeline.index, pipeline.name, pipeline.baseline ? el("span", { class: "soft" }, " baseline") : null);
const namesOf = (run, pipelines) => el("div", { class: "keys" }, pipelines.map((pipeline) => named(run, pipeline)));

/** Name, state, date, command. */
export function head(run, buttons) {
  const { progress } = run;
  const state = run.finished ? el("span", { class: "chip accepted" }, "finished")
    : el("span", { class: "chip running" }, `${count(progress.done)} of ${count(progress.total)} done`);
  const share = progress.total ? progress.done / progress.total : 0;
  const bar = el("i", {});
  bar.style.width = `${100 * share}%`;
  return el("div", {},
    el("div", { class: "title" }, el("h1", {}, run.name), state, run.tags.map((tag) => el("span", { class: "chip" }, tag)), el("span", { class: "push" }, buttons)),
    el("div", { class: "facts" },
      el("span", {}, many(run.tasks, "task")), el("span", {}, many(run.pipelines.length, "pipeline")),
      run.started ? el("span", {}, `started ${when(run.started)}`) : null,
      run.last ? el("span", {}, `last result ${when(run.last)}`) : null,
      run.versions.draftverify ? el("span", {}, `draftverify ${run.versions.draftverify}`) : null,
      run.versions.processor ? el("span", {}, `${run.versions.processor}, ${many(run.versions.cores, "core")}`) : null),
    run.command.length ? el("div", { class: "command mono" }, typed(run.command)) : null,
    run.finished ? null : el("div", { class: "progress", role: "progressbar", "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100 }, bar));
}

const when = (iso) => iso.slice(0, 16).replace("T", " ") + " UTC";

function results(run) {
  const metric = run.metrics[0];
  const rows = run.pipelines.flatMap((pipeline) => pipeline.rows);
  const some = (has) => rows.some(has);
  const per = metric ? "solved" : "task";
  const columns = [
    ["pipeline", false, true, (row, pipeline) => [named(run, pipeline), pipeline.marks.length ? el("div", { class: "marks" }, pipeline.marks.join(", ")) : null]],
    ...run.metrics.slice(0, 1).map((name) => [`solved (${name})`, true, true, solved(name)]),
    ["accepted", true, true, (row) => [figure(row.accepted, percent), people(row, row.if_people_solve)]],
    ...(metric ? [["precision", true, true, (row) => figure(row.solved[metric]?.precision, percent)]] : []),
    [`time / ${per}`, true, true, (row) => figure(metric ? row.solved[metric]?.seconds : row.seconds_per_task, seconds, { interval: false })],
    [`cost / ${per}${inCurrency(run)}`, true, some((row) => row.cost), (row) => figure(metric ? row.solved[metric]?.cost : row.cost_per_task, digits, { interval: false })],
    ["speed-up", true, some((row) => row.speedup), (row, pipeline) => (pipeline.baseline ? el("span", { class: "soft" }, "baseline") : figure(row.speedup, times, { kind: row.verdict }))],
    ["acceptance", true, some((row) => row.acceptance.trials), (row) => figure(row.acceptance, percent)],
    ["pass@k", true, some((row) => row.samples), (row) => passed(row.samples)],
    ["samples", true, some((row) => row.samples), (row) => figure(row.samples?.drawn, digits, { interval: false })],
    ["items / pass", true, some((row) => row.per_pass.value), (row) => figure(row.per_pass, digits, { interval: false })],
    ...run.metrics.slice(1).map((name) => [name, true, true, solved(name)]),
    ...measures(rows),
    ["ended", false, true, (row) => el("span", { class: "whole" }, Object.entries(row.statuses).sort().map(([status, number], index) => [index ? ", " : "", el("span", { class: `word ${status}` }, `${count(number)} ${status}`)]))],
  ].filter((column) => column[2]);
  const headings = columns.map(([text, number]) => (number ? n(text) : text));
  const line = (row, pipeline) => el("tr", {}, columns.map(([, number, , cell]) => el("td", { class: number ? "n" : null }, cell(row, pipeline))));
  const body = run.pipelines.map((pipeline) => line(all(pipeline), pipeline));
  const groups = run.groups.filter((group) => group !== "");
  const byGroup = groups.length && run.pipelines[0]?.rows.length > 1
    ? el("details", {}, el("summary", {}, `By group (${groups.length})`), table(headings, groups.flatMap((group) => [
      el("tr", { class: "group" }, el("td", { colspan: columns.length }, group || "no group")),
      ...run.pipelines.flatMap((pipeline) => pipeline.rows.filter((row) => row.group === group).map((row) => line(row, pipeline))),
    ])))
    : null;
  const against = Object.keys(run.baselines).length ? `the ${run.baseline} of the same cell` : run.baseline;
  const baseline = run.baseline ? `Speed-ups are of seconds per ${metric ? "solved task" : "task that both finished"} against ${against}, paired by task; below 1× is a loss. ` : "";
  return section("results", "Results", `${baseline}After each figure its 95 % interval, with the task as the unit.`,
    table(headings, body), byGroup, remarks(run));
}

/** A metric's share of solved tasks, as a row's cell. */
const solved = (name) => (row) => [figure(row.solved[name]?.rate, percent), people(row, row.solved[name]?.if_people_solve)];

/** What a share of tasks would be if people solved all that wait for them. */
function people(row, share) {
  const { waiting } = row.statuses;
  return share ? el("div", { class: "soft small" }, `${percent(share.value)} if people solve the ${count(waiting)} that ${waiting > 1 ? "wait" : "waits"}`) : null;
}

/** pass@1, and pass@k of as many samples as every task drew; one that would be biased is left out. */
function passed(samples) {
  const shown = samples ? [[1, samples.pass_1], ...(samples.k > 1 ? [[samples.k, samples.pass_k]] : [])].filter(([, found]) => found) : [];
  return shown.length ? shown.map(([k, found]) => el("div", {}, `@${k} `, figure(found, percent))) : figure(null, percent);
}

/** Any measure and any score of the outcome: a column each. */
function measures(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row.measures ?? {})))];
  return names.map((name) => {
    const unit = rows.map((row) => row.measures?.[name]?.unit).find(Boolean) ?? "";
    return [unit && unit !== name ? `${name} (${unit})` : name, true, true, (row) => measured(row.measures?.[name]?.figure, digits)];
  });
}

function remarks(run) {
  const lines = run.pipelines.flatMap((pipeline) => {
    const own = all(pipeline);
    const told = [];
    if (pipeline.failure) told.push(el("span", { class: "loss" }, "the first failure: ", pipeline.failure));
    if (pipeline.problem) told.push(el("span", { class: "loss" }, `a metric failed ${count(Object.values(own.solved).reduce((sum, each) => sum + each.failed, 0))} times, first: `, pipeline.problem));
    if (pipeline.monitor?.length) told.push(el("span", {}, "monitor: ", pipeline.monitor.join("; ")));
    if (pipeline.identical?.of) {
      const { same, of, divergences } = pipeline.identical;
      const why = divergences.filter((each) => each.why);
      told.push(el("span", {}, `${count(same)} of ${count(of)} answers equal the baseline's`),
        why.length ? el("details", {}, el("summary", {}, "where they part"), table(["task", n("position"), "why"], why.map((each) => [each.task, each.position ?? "–", each.why]))) : null);
    }
    const unpaired = own.unpaired ? [["it did not finish", own.unpaired.own], ["the baseline did not finish", own.unpaired.baseline], ["neither finished", own.unpaired.both]].filter(([, number]) => number) : [];
    if (unpaired.length) told.push(el("span", {}, "in no speed-up: ", unpaired.map(([what, number]) => `${number} ${number > 1 ? "tasks" : "task"} that ${what}`).join(", ")));
    if (pipeline.block) told.push(el("span", {}, "block size: ", typeof pipeline.block.why === "string" ? pipeline.block.why : JSON.stringify(pipeline.block)));
    if (pipeline.drafting) told.push(el("span", pipeline.drafting.reads === "loss" ? { class: "loss" } : {}, pipeline.drafting.said));
    const shown = told.filter(Boolean);
    return shown.length ? [el("li", {}, named(run, pipeline), el("div", { class: "said" }, shown.map((each) => el("div", {}, each))))] : [];
  });
  if (!lines.length) return null;
  const list = el("ul", { class: "remarks" }, lines);
  return lines.length <= 6 ? list : el("details", {}, el("summary", {}, `Remarks on ${lines.length} pipelines`), list);
}

/** What follows a heading of costs, where the experiment names their currency. */
const inCurrency = (run) => (run.currency ? ` (${run.currency})` : "");

function costs(run) {
  const points = run.picture.points.map((point) => ({ ...point, index: run.pipelines.find((each) => each.name === point.pipeline).index }));
  if (!points.some((point) => point.seconds?.value > 0 && point.quality?.value !== null)) return null;
  const found = { ...run.picture, points };
  const costly = points.some((point) => point.cost?.value > 0);
  return section("picture", "Cost and quality",
    `Up is better, left is cheaper. Numbers are those of the table, lines 95 % intervals; ${points.filter((point) => point.baseline).length > 1 ? "diamonds are baselines" : "the dashed cross is the baseline"}.`,
    pair(
      [chart("Cost per task against quality, a point per pipeline", 340, picture(found, "seconds")),
        costly ? el("details", {}, el("summary", {}, "The same in cost"), lazy(() => chart(`Cost per task${inCurrency(run)} against quality`, 320, picture(found, "cost")))) : null],
      table(["pipeline", n(run.picture.quality), n("time per task"), ...(costly ? [n(`cost per task${inCurrency(run)}`)] : [])], points.map((point) => [
        named(run, run.pipelines[point.index]), figure(point.quality, percent), measured(point.seconds, seconds), ...(costly ? [measured(point.cost, digits)] : []),
      ]))));
}

/** What is made when the details around it are opened. */
function lazy(make) {
  const place = el("div", {});
  requestAnimationFrame(() => place.closest("details")?.addEventListener("toggle", () => place.append(...[make()].flat()), { once: true }));
  return place;
}

function time(run) {
  const rows = run.pipelines.map((pipeline) => ({ ...all(pipeline), pipeline: pipeline.name, index: pipeline.index, of: pipeline }));
  if (!rows.some((row) => row.seconds > 0)) return null;
  return section("time", "Where the time goes", "Seconds per task: drafting, verifying, and the rest (deciding, waiting, the engine itself).",
    pair(chart("Seconds per task by part", 54 + 30 * rows.length, split(rows)),
      table(["pipeline", n("draft"), n("verify"), n("rest"), n("all tasks")], rows.map((row) => {
        const total = row.split.draft + row.split.verify + row.split.rest;
        const part = (name) => (total ? percent(row.split[name] / total) : "–");
        return [named(run, row.of), part("draft"), part("verify"), part("rest"), seconds(row.seconds)];
      }))));
}

function speedup(run) {
  const rows = run.pipelines.filter((pipeline) => !pipeline.baseline).flatMap((pipeline) => pipeline.rows
    .filter((row) => row.speedup?.value > 0 || row.predicted?.value > 0)
    .map((row) => ({ ...row, label: row.group ? `${pipeline.name} · ${row.group}` : pipeline.name, index: pipeline.index })));
  if (!rows.length) return null;
  const whole = rows.filter((row) => !row.group);
  const shown = rows.length > 9 && whole.length ? whole : rows;
  const shownIn = (some) => pair(chart("Speed-ups over the baseline", 70 + (both ? 34 : 28) * some.length, speedups(some)),
    table(["pipeline", ...(both ? [n("predicted")] : []), n("measured"), "says"], some.map((row) => [
      label(row.index, row.label), ...(both ? [figure(row.predicted, times)] : []), figure(row.speedup, times, { kind: row.verdict }),
      el("span", { class: row.verdict ?? "soft" }, WORD[row.verdict] ?? "–"),
    ])));
  const both = rows.some((row) => row.predicted?.value > 0);
  const hits = run.coverage?.value === null || !run.coverage ? "" : ` Of ${run.coverage.trials} predicted intervals ${Math.round(run.coverage.value * run.coverage.trials)} hold the measured figure.`;
  const say = both ? `Predicted from the first tasks before the measuring run, and measured.${hits}` : "Measured, paired by task with the baseline.";
  return section("speedup", both ? "Speed-up, predicted and measured" : "Speed-up", say,
    shownIn(shown),
    shown.length < rows.length ? el("details", {}, el("summary", {}, `By group (${rows.length - shown.length})`), lazy(() => shownIn(rows.filter((row) => row.group)))) : null);
}

function acceptance(run) {
  const lines = run.pipelines.filter((pipeline) => pipeline.positions.length);
  const staged = run.pipelines.filter((pipeline) => pipeline.stages.length > 1);
  if (!lines.length && !staged.length) return null;
  return section("acceptance", "Acceptance by position and stage",
    "Of the items that were checked at a position of the block, the share that was accepted; items after the first refusal of a chain were not checked, and are not counted. Positions and stages count first tries alone.",
    lines.length ? pair([namesOf(run, lines.slice(0, FEW)), chart("Acceptance by position in the block", 280, positions(lines.slice(0, FEW).map((each) => ({ ...each, positions: each.positions.filter((one) => one.position < POSITIONS) }))))],
      byPosition(run, lines.slice(0, 3), 8)) : null,
    lines.length > 3 || lines.some((pipeline) => pipeline.positions.length > 8) ? el("details", {}, el("summary", {}, "All positions"), lazy(() => byPosition(run, lines, 8 * POSITIONS))) : null,
    staged.map((pipeline) => [el("h3", {}, `Stages of ${pipeline.name}`),
      pair(chart(`What each stage of ${pipeline.name} did with the items that came to it`, 60 + 30 * pipeline.stages.length, stages(pipeline.stages)),
        table(["stage", n("came"), n("refused"), n("let through"), n("time")], pipeline.stages.map((stage) => [stage.stage, count(stage.reached), count(stage.rejected), figure(stage.rate.trials ? stage.rate : null, percent), stage.seconds === null ? "–" : seconds(stage.seconds)])))]));
}

/** A row per position, a column per pipeline. */
function byPosition(run, lines, most) {
  const last = Math.min(most, Math.max(...lines.flatMap((pipeline) => pipeline.positions.map((one) => one.position + 1))));
  return table([n("position"), ...lines.map((pipeline) => n(named(run, pipeline)))], Array.from({ length: last }, (_, position) => [
    String(position + 1), ...lines.map((pipeline) => {
      const one = pipeline.positions.find((each) => each.position === position);
      return one ? [figure(one, percent), el("span", { class: "between" }, ` of ${count(one.trials)}`)] : "";
    })]));
}

let looked = null; // the pipeline whose refusals somebody chose to see, also while the page follows its run

function refused(run) {
  const some = run.pipelines.filter((pipeline) => pipeline.flow.length);
  const stepped = run.pipelines.flatMap((pipeline) => pipeline.steps.map((step) => [pipeline, step]));
  if (!some.length && !stepped.length) return null;
  const place = el("div", {});
  const show = (pipeline) => place.replaceChildren(pair(
    chart(`What became of refused items of ${pipeline.name}`, Math.max(90, 44 * Math.max(...["where", "then", "ended"].map((key) => new Set(pipeline.flow.map((each) => each[key])).size)) + 40), flow(pipeline.flow)),
    table(["refused", "what followed", "task ended", n("items")], pipeline.flow.slice(0, 14).map((each) => [each.where, each.then, el("span", { class: `word ${each.ended}` }, each.ended), count(each.items)]))));
  const items = (pipeline) => pipeline.flow.reduce((sum, each) => sum + each.items, 0);
  some.sort((left, right) => items(right) - items(left));
  const first = some.find(({ name }) => name === looked) ?? some[0];
  if (first) show(first);
  const choice = some.length > 1 ? el("div", { class: "filters" }, some.map((pipeline) => el("button", { class: pipeline === first ? "on" : null, onclick: (event) => {
    looked = pipeline.name;
    for (const other of event.target.parentNode.children) other.classList.toggle("on", other === event.target);
    show(pipeline);
  } }, pipeline.name))) : null;
  return section("refused", "What was refused, and what became of it", "From left to right: what an item was refused for, what the pipeline did about it, and how its task ended.",
    choice, place,
    stepped.length ? [el("h3", {}, "Policy steps"), table(["pipeline", "step", "on", n("taken"), n("tasks"), n("time"), n("progress"), n("accepted tasks")], stepped.map(([pipeline, step]) => [
      named(run, pipeline), `${step.clause + 1}. ${step.do.replaceAll("_", " ")}`, Object.entries(step.on).sort().map(([on, number]) => `${on} ${number}`).join(", "), count(step.taken), count(step.tasks), seconds(step.seconds), count(step.progress), count(step.accepted)]))] : null);
}

function trust(run) {
  const metric = run.metrics[0];
  const caveats = run.pipelines.some((pipeline) => Object.keys(pipeline.trust.caveats).length);
  const marked = run.pipelines.some((pipeline) => pipeline.trust.marks.length);
  return section("trust", "How far the verifier can be trusted", `Accepted is the verifier's word${metric ? `. How much of it is right, the metric “${metric}” says, which no part of a pipeline sees` : "; without a metric nothing else speaks for it"}.`,
    table(["pipeline", "whose word", "what it said", ...(metric ? [n("precision")] : []), ...(caveats ? ["accepted with a caveat"] : []), ...(marked ? ["audit and marks"] : []), "answers"], run.pipelines.map((pipeline) => [
      named(run, pipeline), counted(pipeline.trust.by) || "–", saidBy(pipeline),
      ...(metric ? [figure(pipeline.trust.precision, percent)] : []),
      ...(caveats ? [counted(pipeline.trust.caveats) || "–"] : []),
      ...(marked ? [pipeline.trust.marks.join("; ") || "–"] : []),
      pipeline.trust.deterministic ? "repeatable" : "may differ another time"])),
    run.verifiers ? byLabels(run, run.verifiers) : null);
}

/** What `draftverify audit verifier` found: a line for each figure. */
function byLabels(run, { labels, pipelines, shared, curves }) {
  const lines = [...pipelines, shared].flatMap(({ name, figures, untested }) => figures.length
    ? figures.map((each, index) => [index ? "" : name, each.name, figure(each, digits), count(each.n), each.reads])
    : [[name, el("span", { class: "soft" }, "not tested"), "", "", untested]]);
  const scored = run.pipelines.filter((each) => curves[each.name]).map((each) => ({ ...each, ...curves[each.name] }));
  return [el("h3", {}, `Item by item, by the labels of ${labels === "people" ? "people" : `the metric “${labels}”`}`),
    table(["", "figure", n(""), n("items"), "reads"], lines),
    scored.length ? el("details", {}, el("summary", {}, "ROC curves of the scores"), lazy(() => [namesOf(run, scored), chart("The share of right items that pass against that of wrong ones; dashed within tasks", 320, roc(scored))])) : null];
}

const many = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
const counted = (counts) => Object.entries(counts).sort((left, right) => right[1] - left[1]).map(([name, number]) => `${name} ${count(number)}`).join(", ");

/** What a verifier said of items; one that gives distributions says nothing of any. */
function saidBy(pipeline) {
  const { verdicts, accepted_items: accepted } = pipeline.trust;
  if (Object.keys(verdicts).length) return counted(verdicts);
  if (accepted) return "distributions; the rule decides";
  return all(pipeline).emitted ? "all is its own; nothing was drafted" : "–";
}

/** Cells of a sweep, config, versions, starts. */
export function config(run) {
  const cells = Object.entries(run.cells);
  return section("config", "Config", null,
    cells.length ? el("details", {}, el("summary", {}, `Cells (${cells.length})`), table(["cell", "changes"], cells.map(([name, changed]) => [name, Object.entries(changed).map(([path, value]) => `${path} = ${JSON.stringify(value)}`).join(", ")]))) : null,
    el("details", {}, el("summary", {}, "Config as it ran, secrets taken out"), el("pre", { class: "box" }, run.config)),
    el("details", {}, el("summary", {}, "Versions and starts"),
      table(["what", "version"], Object.entries(run.versions)),
      table(["started", "command", "changed since"], run.starts.map((each) => [each.at ? when(each.at) : "–", el("code", {}, typed(each.command ?? [])), (each.accepted ?? []).join("; ")]))));
}

/** The words and colours of the page. */
export function legend() {
  const tok = (fate, text) => el("span", { class: `tok ${fate} mono` }, text);
  const entry = (term, text) => [el("dt", {}, term), el("dd", {}, text)];
  return section("legend", "Legend", null, el("dl", { class: "legend" },
    entry("accepted", "the verifier passed what the rule needed: its word, not the truth."),
    entry("solved", "what the first metric says, against an answer that no part of a pipeline sees."),
    entry("refused", "budget, generator or policy came to an end and nothing was accepted."),
    entry("abstained", "the rule says that there is no answer here."), entry("waiting", "for a person; draftverify view RUN --review answers. What the task has cost so far counts, and it is not solved."),
    entry("failed", "a part broke; nothing was judged."),
    entry("differs", "the value is another than the baseline's for the same task."),
    entry("speed-up", "the baseline's seconds over this pipeline's, paired by task. Green: the interval lies above 1×. Red: below, a loss. Grey: it holds 1×, no difference seen."),
    entry("precision", "of the accepted, the share that the first metric calls right."),
    entry("acceptance", "accepted of checked items on first tries. Errors, timeouts, abstentions and items that nobody looked at are in no rate."),
    entry("time / solved", "the seconds of all tasks, the given-up ones too, shared out over the solved."),
    entry("interval", "95 %, with the task as the unit, since items of one task resemble each other."),
    entry("items", el("span", {}, tok("kept", "kept"), " ", tok("refused", "refused"), " ", tok("spliced", "the verifier's own, spliced in"), " ", tok("held", "held for later"), " ", tok("left", "not looked at, or cut off")))));
}
