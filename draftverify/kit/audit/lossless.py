"""Whether a pipeline's output is its verifier's own: the parts of the audit, put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from draftverify.engine.parts import Fixed
from draftverify.engine.pipeline import Pipeline, as_task
from draftverify.kit.audit.batches import batch_problems
from draftverify.kit.audit.draws import draw_tests
from draftverify.kit.audit.enumeration import enumerate_rule, stopping_problem
from draftverify.kit.audit.recorded import record
from draftverify.kit.audit.report import Enumeration, PipelineReport
from draftverify.kit.audit.stopping import stopping_problems
from draftverify.kit.audit.text import greedy_text
from draftverify.kit.unknowns import NotEnumerable
from draftverify.rules import GreedyMatch
from draftverify.stats.block import Measured
from draftverify.values import LawKind, Shape, Task

SHAPES: tuple[Shape, ...] = ("alternatives", "chain", "tree")
MOST_DRAFTED = 8
AUDITABLE = frozenset({"target", "raw_maxima"})


def lossless(
    pipeline: Pipeline,
    tasks: Iterable[Any] = (),
    *,
    prefixes: int = 20,
    copies: int = 4096,
    redraws: int = 64,
    error: float = 1e-6,
    enumerate_all: bool = True,
) -> PipelineReport:
    """Audit one pipeline. It is opened, and not closed.

    Args:
        pipeline: the pipeline.
        tasks: as `Pipeline.run` takes them; without any only the enumeration is done.
        prefixes: at how many rounds of the tasks the rule and the generator are played.
        copies: how often the rule is played at each.
        redraws: how often the generator is asked again at each.
        error: the probability that a sound pipeline fails by chance, at most.
        enumerate_all: also the cases after the first one that fails.

    Returns:
        What each part found.

    Raises:
        DraftVerifyError: the pipeline cannot be opened, or a part fails outright.
    """
    exact = claims_exact(pipeline)
    listed = [as_task(task, str(at)) for at, task in enumerate(tasks)]
    notes: list[str] = []
    failures: list[str] = []
    if listed or pipeline.done is not None:
        pipeline.open()
    enumeration = _enumerated(pipeline, notes, not enumerate_all) if exact else None
    parts: dict[str, Any] = {}
    if not listed:
        notes.append("no tasks: nothing was recorded")
    elif "target" not in pipeline.verifier_traits.provides:
        notes.append("the verifier gives no target distributions, so there is nothing to compare with")
    else:
        sizes: dict[str, Any] = {"prefixes": prefixes, "copies": copies, "redraws": redraws, "error": error}
        parts = _on_tasks(pipeline, listed, exact, failures, notes, **sizes)
    return PipelineReport(
        pipeline=pipeline.name,
        rule=type(pipeline.rule).__name__,
        exact=exact,
        enumeration=enumeration,
        failures=tuple(failures),
        notes=tuple(notes),
        **parts,
    )


def _on_tasks(
    pipeline: Pipeline,
    tasks: list[Task],
    exact: bool,
    failures: list[str],
    notes: list[str],
    *,
    prefixes: int,
    redraws: int,
    copies: int,
    error: float,
) -> dict[str, Any]:
    """What real tasks show: draws at recorded rounds, greedy text and drift; failures and notes are added to."""
    greedy, drafting = _greedy(pipeline), pipeline
    if pipeline.learns:
        # A controller may come to draft nothing, and then there would be nothing to look at.
        drafting = pipeline.with_parts(block=min(_largest_block(pipeline), MOST_DRAFTED))
        notes.append(
            f"real tasks: blocks of {drafting.block.n} in place of {type(pipeline.block).__name__}'s choice"
        )
    recorded = record(drafting, tasks, prefixes, redraws, rows=not greedy)
    if not any(len(entry.proposal) for entry in recorded):
        notes.append("nothing was drafted at the recorded rounds")
    draws = draw_tests(pipeline.rule, recorded, copies=copies, error=error, judge_rule=exact)
    looks = [batch_problems(pipeline, recorded, judge_rule=exact, rows=not greedy)]
    text = greedy_text(drafting, tasks) if greedy else None
    if exact and pipeline.done is not None:
        looks.append(stopping_problems(drafting, tasks, _largest_block(drafting)))
    for problems, remarks in looks:
        failures += problems
        notes += remarks
    measured = [] if exact else [drift for task in tasks if (drift := pipeline.run(task).drift) is not None]
    drift = sum(measured) / len(measured) if measured else None
    return {"draws": draws, "text": text, "drift": drift}


def claims_exact(pipeline: Pipeline) -> bool:
    """Whether the rule says that it emits the target's distribution; greedy match does at temperature 0."""
    return pipeline.rule_traits.exact or (isinstance(pipeline.rule, GreedyMatch) and _greedy(pipeline))


def _greedy(pipeline: Pipeline) -> bool:
    return pipeline.settings.get("temperature") == 0


def _enumerated(pipeline: Pipeline, notes: list[str], stop_at_first: bool) -> Enumeration | None:
    rule: Any = pipeline.rule
    missing = sorted(pipeline.rule_traits.needs - AUDITABLE)
    if missing:
        notes.append(
            f"not enumerated: the rule needs {', '.join(missing)}, which a tiny target does not have"
        )
        return None
    laws: set[LawKind] = set()
    shapes: set[Shape] = set()
    for generator in pipeline.generators:
        traits = pipeline.declared[id(generator)]
        laws |= traits.laws
        shapes |= {traits.shape} if traits.shape is not None else set(pipeline.rule_traits.shapes or SHAPES)
    # Greedy match is exact for rows of one item alone; any other rule is shown for all rows, and for those too.
    one_item = isinstance(rule, GreedyMatch)
    done = pipeline.done
    if done is not None and (problem := stopping_problem(done, pipeline.settings)):
        notes.append(
            f"an end item stands for the pipeline's stopping rule, which cannot stop a tiny task: {problem}"
        )
        done = None
    try:
        return enumerate_rule(
            rule,
            laws=laws,
            shapes=shapes,
            most=_largest_block(pipeline),
            done=done,
            settings=pipeline.settings,
            greedy=one_item,
            stop_at_first=stop_at_first,
        )
    except NotEnumerable as unfollowed:
        notes.append(f"not enumerated: {unfollowed}")
        return None


def _largest_block(pipeline: Pipeline) -> int:
    block = pipeline.block
    if isinstance(block, Fixed):
        return block.n
    return block.at_most if isinstance(block, Measured) else 4
