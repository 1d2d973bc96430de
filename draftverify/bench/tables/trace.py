"""One task of a run, round by round, for the terminal: what was drafted, what was said of it and by whom, what became
of it, what it cost, and what the policy did then.

Text keeps its lines: what has several stands in a block with a bar beside it, code as it was written. What a model
wrote is cleaned line by line, so nothing in it steers the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET
from rich.text import Text

from draftverify.bench.records.directory import RunRecords
from draftverify.bench.records.entries import Texts
from draftverify.bench.records.items import answer_words, item_of, spliced_in
from draftverify.bench.tables.expected import differences
from draftverify.bench.tables.words import NAME, block, clean, cost_words, seconds_words, words
from draftverify.checks.scores import Score
from draftverify.errors import ConfigError, did_you_mean
from draftverify.exchanges import KEY, Exchange, exchanges_of, exchanges_of_metric
from draftverify.values import Check, Outcome, Round, Task, TaskRecord

STYLES = {"kept": "green", "held": "yellow", "struck": "red strike", "spliced": "bold blue", "left": "dim"}
# Without colours the same is said with marks, as wdiff does.
MARKS = {"kept": "{}", "held": "({})", "struck": "[-{}-]", "spliced": "{{+{}+}}", "left": "~{}~"}

LONGEST = 60
"""Characters of a value that still stands on the line of its verdict."""

UNSEEN = 3
"""Of many drafts that the verifier did not look at so many are shown."""

PIECE = 24
"""Characters of an item that is a piece of a text (a token) rather than a text of its own (a step)."""


class TraceStyle(NamedTuple):
    """How a trace is written.

    Args:
        marks: say kept, struck and spliced with marks besides colours.
        tracebacks: of calls that failed, show where.
        currency: of costs; "" where the experiment names none.
    """

    marks: bool
    tracebacks: bool = False
    currency: str = ""


def trace_lines(
    records: RunRecords, task: str, pipeline: str | None, *, marks: bool, tracebacks: bool = False
) -> Iterator[Text]:
    """One task's rounds, line by line.

    Args:
        records: the run.
        task: its id.
        pipeline: only this one; all in the config's order when None.
        marks: say kept, struck and spliced with marks besides colours.
        tracebacks: of calls that failed, show where.

    Raises:
        ConfigError: the run has no such task.
    """
    specs: Mapping[str, Any] = records.config.get("pipelines", {})
    style = TraceStyle(marks, tracebacks, records.currency)
    recorded_task = next(iter(records.store.tasks(id=task)), None)
    if recorded_task is None:
        ids = [candidate.id for candidate in records.store.tasks()]
        raise ConfigError(f"the run has no task {task!r}{_near(task, ids)}", path="--trace")
    judgements = records.store.judgements(task)
    yield from _task_lines(recorded_task)
    own_tasks = records.store.own_tasks()
    for name in records.names:
        if pipeline not in (None, name) or task not in own_tasks.get(name, {task}):
            continue
        spec = specs.get(name)
        yield Text("")
        phrases = (f"  {clean(mark)}" for mark in records.marks.get(name, ()))
        yield Text.assemble((clean(name), "bold underline"), *phrases)
        if spec is not None:
            yield Text(f"  {_made_of(spec)}", style="dim")
        rule = spec.get("rule") if isinstance(spec, Mapping) else None
        entries = list(records.store.entries(pipeline=name, task=task))
        for entry in entries:
            yield from round_lines(entry.record.rounds, entry.texts, style, rule=rule)
            yield from _inner_lines(entry.record.inner, style, "  ")
            yield from outcome_lines(entry.record.outcome, style.currency)
            yield from _differences(entry.record.outcome, recorded_task)
            answer = answer_words(entry.record.rounds, entry.texts)
            if answer and entry.record.outcome.status != "waiting":
                yield from _labelled("in words", answer, "  ")
        yield from _judgements(judgements.get(name, {}), style.currency)
        if not entries:
            rounds = records.store.rounds(name, task, 0)
            texts = records.store.words(name, task, 0)
            yield from round_lines(rounds, texts, style, rule=rule)
            yield Text(f"  {'not finished' if rounds else 'not run yet'}", style="yellow")


def _task_lines(task: Task) -> Iterator[Text]:
    group = f"  {words(task.group, NAME)}" if task.group else ""
    yield Text.assemble(("task ", "bold"), words(task.id, NAME), (group, "dim"))
    for name, value in task.input.items():
        yield from _labelled(clean(name), value, "  ")
    for name, value in task.expected.items():
        yield from _labelled(f"expected {words(name, 100)}", value, "  ", "green")


def round_lines(
    rounds: tuple[Round, ...],
    texts: tuple[Texts | None, ...],
    style: TraceStyle,
    indent: str = "  ",
    *,
    rule: Any = None,
) -> Iterator[Text]:
    """The rounds of one record, and of the records inside it.

    Args:
        rounds, texts: of the record; its values in words where the verifier had them.
        style: how they are written.
        indent: before every line.
        rule: of the pipeline, as the config has it; says which threshold it was that an item missed.
    """
    inside = indent + "  "
    for place, round in enumerate(rounds):
        round_texts = texts[place] if place < len(texts) else None
        yield _heading(round, indent, style.currency)
        items = [_item(round, round_texts, index) for index in range(len(round.items))]
        if _is_text(round, round_texts, items):
            yield _chain(round, round_texts, items, style.marks, inside)
            refused = {refusal.index for refusal in round.decision.refused}
            for index, check in enumerate(round.checks):
                if index in refused or check.caveat or check.verdict not in ("pass", "unchecked"):
                    yield Text.assemble(inside, (f"item {index}: {_said(round, index, rule)}", "dim"))
                    yield from _more(check, inside + "  ")
        else:
            yield from _items(round, round_texts, items, style.marks, inside, rule)
        yield from _exchanges(exchanges_of(round), inside, style.currency)
        if round.failure is not None:
            timing = round.timing
            called = "decide" if timing.decide else "verify" if timing.passes else "propose"
            yield Text(
                f"{inside}{called} failed, {round.failure.kind}: {words(str(round.failure), 300)}",
                style="red",
            )
            if style.tracebacks and round.failure.traceback:
                yield from _barred(block(round.failure.traceback, 8000), inside, "dim")
        for step in round.steps:
            yield Text(f"{inside}on {step.on}: {step.clause + 1}. {step.do}", style="magenta")
        yield from _inner_lines(round.nested, style, inside)


def _inner_lines(records: Sequence[TaskRecord], style: TraceStyle, indent: str) -> Iterator[Text]:
    for record in records:
        yield Text(f"{indent}inner task {words(record.task, NAME)}: {record.outcome.status}", style="dim")
        yield from round_lines(record.rounds, (), style, indent + "  ")
        yield from _inner_lines(record.inner, style, indent + "  ")


def _heading(round: Round, indent: str, currency: str) -> Text:
    timing = round.timing
    parts = [
        f"drafted {len(round.items)}" + (f" of {round.asked}" if round.asked != len(round.items) else "")
    ]
    if round.undrafted:
        parts = ["not drafted, to the fallback at once"]
    if round.source != "generator":
        parts.append(f"by {clean(round.source)}")
    noted = {key: note for key, note in (round.draft_notes or {}).items() if key != KEY}
    parts += [f"{words(key, NAME)} {words(note, NAME)}" for key, note in noted.items()]
    if round.by != "verifier":
        parts.append("a person's word" if round.by == "person" else "a trusted fallback's word")
    if round.tries:
        parts.append(f"try {round.tries + 1}")
    if round.tally.trials:
        parts.append(f"accepted {round.tally.accepted} of {round.tally.trials}")
    parts.append(f"draft {seconds_words(timing.draft)}, verify {seconds_words(timing.verify)}")
    if timing.passes > 1:
        parts.append(f"{timing.passes} passes")
    if timing.cost:
        parts.append(cost_words(timing.cost, currency))
    return Text.assemble(indent, (f"round {round.index}", "bold"), "  ", (" · ".join(parts), "dim"))


def _is_chain(round: Round) -> bool:
    return round.parents == tuple(range(-1, len(round.items) - 1))


def _is_text(round: Round, texts: Texts | None, items: list[Any]) -> bool:
    """Whether the items are pieces of one text: tokens, or short words in a row. One alone may be an alternative."""
    short = all(isinstance(item, str) and len(item) <= PIECE for item in items)
    return short and _is_chain(round) and (texts is not None or len(items) != 1)


def _chain(round: Round, texts: Texts | None, items: list[Any], marks: bool, indent: str) -> Text:
    """A chain of pieces as the text that they make, with its lines; then what was spliced in their place."""
    line = Text(indent)
    segments = [(_state(round, index), words(item, 120)) for index, item in enumerate(items)]
    segments += [("spliced", words(value, 120)) for value in spliced_in(round, texts)]
    if not segments:
        return line.append("nothing", style="dim")
    for number, (state, text) in enumerate(segments):
        if number:
            line.append("│", style="dim")
        line.append(
            (MARKS[state].format(text) if marks else text).replace("⏎", f"⏎\n{indent}"), style=STYLES[state]
        )
    return line


def _items(
    round: Round, texts: Texts | None, items: list[Any], marks: bool, indent: str, rule: Any
) -> Iterator[Text]:
    """Alternatives, trees and steps, each with its verdict: on one line, or with its own lines below."""
    unseen = [index for index, check in enumerate(round.checks) if check.verdict == "unchecked"]
    left_out = unseen[UNSEEN:] if len(unseen) > 2 * UNSEEN else []
    for index, item in enumerate(items):
        if index in left_out:
            continue
        state = _state(round, index)
        parent = round.parents[index]
        placing = f" after {parent}" if parent >= 0 and not _is_chain(round) else ""
        passed = bool(round.checks) and round.checks[index].verdict == "pass"
        label = ("not chosen" if passed else "not judged") if state == "left" else state
        lines = block(item)
        short = len(lines) == 1 and len(lines[0]) <= LONGEST
        line = Text.assemble(indent, (f"{index}{placing} {label}: ", "dim"))
        if short:
            line.append(MARKS[state].format(lines[0]) if marks else lines[0], style=STYLES[state])
        verdict = _said(round, index, rule)
        line.append(f"{'  ' if short and verdict else ''}{verdict}", style="dim")
        yield line
        if not short:
            yield from _barred(lines, indent + "  ", STYLES[state].replace(" strike", ""))
        if round.checks:
            yield from _more(round.checks[index], indent + "  ")
    if left_out:
        yield Text(f"{indent}… and {len(left_out)} more that were not looked at", style="dim")
    for value in spliced_in(round, texts):
        lines = block(value)
        if len(lines) == 1:
            value_text = MARKS["spliced"].format(lines[0]) if marks else lines[0]
            yield Text.assemble(indent, ("spliced: ", "dim"), (value_text, STYLES["spliced"]))
        else:
            yield Text.assemble(indent, ("spliced:", "dim"))
            yield from _barred(lines, indent + "  ", STYLES["spliced"])
    if not items and not round.decision.emitted and round.failure is None:
        yield Text.assemble(indent, ("nothing", "dim"))


def _judgements(scores: Mapping[str, Score], currency: str) -> Iterator[Text]:
    """What the metrics said, and what they asked models."""
    for name, score in scores.items():
        value = "has no say" if score.value is None else f"{score.value:.3g}"
        said = f"failed: {words(score.problem, 1000)}" if score.problem else value
        yield Text(f"  metric {clean(name)}: {said}", style="red" if score.problem else "")
        yield from _exchanges(exchanges_of_metric(name, score.notes), "    ", currency)


def _exchanges(exchanges: Iterable[tuple[str, Exchange]], indent: str, currency: str) -> Iterator[Text]:
    """What was asked of models and what they said: the messages, and each reply with what it took."""
    for who, exchange in exchanges:
        facts = [words(exchange.model, 100)] if exchange.model else []
        facts += [f"{exchange.tokens_in} tokens in"] if exchange.tokens_in else []
        facts += [f"{exchange.tokens_in_cached} of them cached"] if exchange.tokens_in_cached else []
        facts += [cost_words(exchange.cost, currency)] if exchange.cost else []
        yield Text.assemble(
            indent, (f"asked by {words(who, 100)}", "bold dim"), (f"  {' · '.join(facts)}", "dim")
        )
        for turn in exchange.asked:
            yield from _labelled(words(turn.role, 100) or "prompt", turn.content, indent + "  ", "dim")
        for reply in exchange.replies:
            facts = [f"item {reply.item}"] if reply.item is not None else []
            facts += [f"{reply.tokens} tokens"] if reply.tokens else []
            facts += [words(reply.finish, 100)] if reply.finish not in ("", "stop") else []
            facts += ["bought before"] if reply.cached else []
            facts += [words(reply.id, 100)] if reply.id else []
            yield from _labelled(" · ".join(["reply", *facts]), reply.text, indent + "  ")
        if exchange.failure:
            yield Text(f"{indent}  no reply: {words(exchange.failure, 1000)}", style="red")


def _barred(lines: list[str], indent: str, style: str) -> Iterator[Text]:
    for line in lines:
        yield Text.assemble(indent, ("│ ", "dim"), (line, style))


def _differences(outcome: Outcome, task: Task) -> Iterator[Text]:
    """Where the value is not as labelled, as wdiff writes it."""
    marks, styles = (
        {"same": "{}", "missing": "[-{}-]", "extra": "{{+{}+}}"},
        {"missing": "green", "extra": "red"},
    )
    for field, parts in differences(outcome.value, task.expected) if outcome.value is not None else ():
        line = Text.assemble("  ", (f"{words(field, 100)}, [-expected-] {{+given+}}: ", "dim"))
        for kind, text in parts:
            lead = text[: len(text) - len(text.lstrip())]
            line.append(words(lead + marks[kind].format(text.strip()), 2000), style=styles.get(kind, ""))
        yield line


def _labelled(label: str, value: Any, indent: str, style: str = "") -> Iterator[Text]:
    """A value behind its name, or below it where it has several lines."""
    lines = block(value)
    if len(lines) == 1:
        yield Text.assemble(indent, (f"{label}: ", "dim"), (lines[0], style))
    else:
        yield Text.assemble(indent, (f"{label}:", "dim"))
        yield from _barred(lines, indent + "  ", style)


def _said(round: Round, index: int, rule: Any) -> str:
    """The verifier's word on an item, and the rule's where it is another: which threshold struck."""
    parts: list[str] = []
    check = round.checks[index] if round.checks else None
    if check is not None:
        parts.append(check.verdict)
        if check.score is not None:
            parts.append(f"score {check.score:.3g}")
        parts += [words(text, 200) for text in (check.stage, check.reason) if text]
        if check.feedback and "\n" not in check.feedback.strip():
            parts.append(words(check.feedback.strip(), 200))
        parts += [f"caveat: {words(check.caveat, 200)}"] if check.caveat else []
    why = next((refusal.reason for refusal in round.decision.refused if refusal.index == index), "")
    if why and (check is None or why != check.reason):
        threshold = rule.get("threshold") if isinstance(rule, Mapping) and "threshold" in why else None
        parts.append(
            f"refused by the rule: {words(why)}" + (f" {threshold}" if threshold is not None else "")
        )
    return " · ".join(parts)


def _more(check: Check, indent: str) -> Iterator[Text]:
    """What was said of an item in several lines, and what the verifier would have in its place."""
    if "\n" in check.feedback.strip():
        yield from _labelled("feedback", check.feedback.strip(), indent, "dim")
    if check.correction is not UNSET:
        yield from _labelled("instead", check.correction, indent, "blue")


def _state(round: Round, index: int) -> str:
    decision = round.decision
    if index in decision.kept:
        return "kept" if index in decision.joined else "left"  # cut off by the stopping rule
    if index in decision.held:
        return "held"
    if any(refusal.index == index for refusal in decision.refused):
        return "struck"
    return "struck" if round.checks and round.checks[index].verdict == "reject" else "left"


def _item(round: Round, texts: Texts | None, index: int) -> Any:
    """An item in words where there are any; a number as the text that it is shown as."""
    value = item_of(round, texts, index)
    return value if isinstance(value, (str, dict, list)) else words(value)


def outcome_lines(outcome: Outcome, currency: str = "") -> Iterator[Text]:
    """How a task ended, its value, and what is to be said against it."""
    style = {"accepted": "green", "failed": "red"}.get(outcome.status, "yellow")
    reason = f" ({words(outcome.reason, 300)})" if outcome.reason else ""
    facts = [f"{outcome.rounds} round" + "s" * (outcome.rounds != 1), seconds_words(outcome.seconds)]
    facts += [cost_words(outcome.cost, currency)] if outcome.cost else []
    for name in ("score", "support", "margin"):
        number = getattr(outcome, name)
        facts += [f"{name} {number:.3g}"] if number is not None else []
    yield Text.assemble("  ", (outcome.status, style), reason, (f"  {', '.join(facts)}", "dim"))
    weakened = outcome.tally.weakened()
    if weakened:
        yield Text(f"  {words(weakened, 400)}", style="yellow")
    if outcome.value is not None or outcome.status == "accepted":
        yield from _labelled("value", outcome.value, "  ")
    if outcome.refused is not None:
        yield from _labelled("best refused", outcome.refused.value, "  ")


def _made_of(spec: Any) -> str:
    """The parts of a pipeline with their arguments, as the config has them."""
    parts = []
    for role in ("generator", "verifier", "rule"):
        part = spec.get(role) if isinstance(spec, Mapping) else None
        if isinstance(part, Mapping):
            arguments = [f"{key} {words(value, 40)}" for key, value in part.items() if key != "use"]
            name = str(part["use"]) if "use" in part else "a pipeline"
            parts.append(", ".join([name, *(arguments if "use" in part else ())]))
    return clean(" → ".join(parts))


def _near(name: str, ids: list[str]) -> str:
    """The nearest ids; of very many not all."""
    hint = did_you_mean(name, ids)
    return hint if len(ids) <= 8 or hint.startswith("; did") else f"; there are {', '.join(ids[:8])}, …"
