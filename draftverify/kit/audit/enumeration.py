"""The rule on tiny models, exactly: every answer's probability over all random draws, against the target's own.

Sessions are real ones: proposals are checked, the rule decides, `done` cuts inside the block, and rounds follow each
other down to the end of the answer. Only the random numbers are unknowns (see `unknowns`), so nothing is sampled. What
a round emits depends on the accepted items alone, so rounds are enumerated prefix by prefix and put together; the
smallest cases run whole sessions, in which a part may also remember things that it should not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import Decide, Draft, Request, Verify
from draftverify.engine.session import Session
from draftverify.errors import DraftVerifyError
from draftverify.kit.audit.drafters import HardDraft, Manner, Parents, layouts
from draftverify.kit.audit.driving import drive, perform
from draftverify.kit.audit.report import Enumeration
from draftverify.kit.contexts import advanced, make_context
from draftverify.kit.tables import TablePair, TargetFrom
from draftverify.kit.unknowns import NotEnumerable, Path, Stream, explore
from draftverify.protocols import AcceptanceRule, Done
from draftverify.values import EMPTY, Context, Decision, LawKind, Round, Shape, Task, chain_parents

Answers: TypeAlias = "dict[tuple[int, ...], float]"
"""The probability of each answer."""
Result = TypeVar("Result", bound=Hashable)

TOLERANCE = 1e-12
PATHS = 3000
"""About so many ways through a case are followed; a rule that looks at more numbers gets a smaller vocabulary."""


class TinyCase(NamedTuple):
    """A tiny pipeline: what is drafted how, by which law, in blocks of how many; answers of `limit` items at most."""

    tables: TablePair
    law: LawKind
    shape: Shape
    parents: Parents
    block: int
    limit: int
    manner: Manner = "full"
    whole_sessions: bool = False

    def pipeline(self, rule: AcceptanceRule, done: Done | None, settings: Mapping[str, Any]) -> Pipeline:
        """The case with a rule and a stopping rule."""
        return Pipeline(
            HardDraft(self.tables, self.law, self.shape, self.parents, self.manner, reads=settings.keys()),
            TargetFrom(self.tables.p),
            rule,
            block=self.block,
            done=self.ending(done),
            settings=settings,
        )

    @property
    def task(self) -> Task:
        """The one task of the tiny pipeline."""
        tables = self.tables
        return Task(
            id="audit", input={"prompt_ids": [], "eos_ids": [tables.end], "vocabulary": tables.vocabulary}
        )

    def ending(self, done: Done | None) -> Done:
        """The pipeline's stopping rule, or where it has none the tables' end item; and the limit besides."""

        def keep(context: Context, new: tuple[Any, ...]) -> int | None:
            length_before = len(context.accepted) - len(new)
            ends = [self.limit - length_before] if len(context.accepted) >= self.limit else []
            if done is not None:
                cut = done(context, new)
                ends += [] if cut is None else [cut]
            elif self.tables.end in new:
                ends.append(new.index(self.tables.end) + 1)
            return min(ends, default=None)

        return keep

    def __str__(self) -> str:
        layout = self.shape if self.shape != "tree" else f"tree {list(self.parents)}"
        return (
            f"{layout} of law {self.law} ({self.manner}), block {self.block}, {self.tables.vocabulary} items, table "
            f"{self.tables.seed}"
        )


def enumerate_rule(
    rule: AcceptanceRule,
    *,
    laws: Iterable[LawKind],
    shapes: Iterable[Shape],
    most: int,
    done: Done | None = None,
    settings: Mapping[str, Any] = EMPTY,
    greedy: bool = False,
    stop_at_first: bool = False,
) -> Enumeration:
    """Enumerate a rule on tiny models.

    Args:
        rule: the rule.
        laws, shapes: of the drafters.
        most: the largest block; blocks of 0 to 3 and of this size are enumerated, a longer one with three free places.
        done: the pipeline's stopping rule; None for one that ends at the tables' end item.
        settings: the pipeline's.
        greedy: the target's rows have all mass on one item.
        stop_at_first: leave out the cases after the first one that fails.

    Raises:
        NotEnumerable: the rule uses random numbers in a way that cannot be followed.
    """
    laws, shapes = tuple(sorted(laws)), tuple(sorted(shapes))
    run = paths = 0
    worst = 0.0
    failures: list[str] = []
    blocks: set[int] = set()
    for case in _cases(laws, shapes, most, greedy):
        try:
            case, pipeline = _affordable(case, rule, done, settings)
            answers, followed = (_whole_sessions if case.whole_sessions else _round_by_round)(pipeline, case)
        except NotEnumerable:
            raise
        except Exception as error:
            answers, followed = {}, 0
            failures.append(f"{case}: {type(error).__name__}: {error}")
        else:
            far, message = _difference(answers, _target_answers(case, done, settings))
            worst = max(worst, far)
            if not far <= TOLERANCE:
                failures.append(f"{case}: {message}")
        run, paths = run + 1, paths + followed
        blocks.add(case.block)
        if failures and stop_at_first:
            break
    return Enumeration(
        cases=run,
        paths=paths,
        worst=worst,
        laws=laws,
        shapes=shapes,
        blocks=tuple(sorted(blocks)),
        failures=tuple(failures),
    )


def _cases(
    laws: tuple[LawKind, ...], shapes: tuple[Shape, ...], most: int, greedy: bool
) -> Iterator[TinyCase]:
    """The tiny pipelines, the quickest first: every law and shape, every block up to 3, and the largest one."""
    table = partial(TablePair, greedy=greedy)
    sizes = [n for n in (1, 2, 3) if n <= most]
    yield TinyCase(table(6, 1, mixed=True), laws[0], "chain", (), 0, 3)
    for law in laws:
        manners: list[Manner] = ["likely", "unlikely", "unknown"] if law == "given" else ["full"]
        for shape in shapes:
            for n in sizes:
                V, limit = {1: (6, 3), 2: (5, 3), 3: (4, 3)}[n]
                for parents in layouts(shape, n):
                    for manner in _manners(manners, law, parents):
                        yield TinyCase(table(V, 10 + n), law, shape, parents, n, limit, manner)
                        if n < 3:
                            yield TinyCase(
                                table(4, 20 + n, mixed=True), law, shape, parents, n, limit, manner
                            )
            n = min(most, 2)
            if n:
                parents = layouts(shape, n)[0]
                yield TinyCase(table(2, 31), law, shape, parents, n, 3, manners[-1], whole_sessions=True)
            if most > 3:
                free = sorted({0, most // 2, most - 1}) if shape == "chain" else [0, 1, 2]
                for parents in layouts(shape, most):
                    has_many_siblings = shape != "chain" and parents.count(-1) > 3
                    manner = "likely" if law == "given" else "full"
                    if has_many_siblings and law == "iid":
                        continue  # so many siblings from one row are too many paths
                    for places in (free, *_remaining_places(free, _depth(parents))):
                        yield TinyCase(
                            table(3, 41, free=frozenset(places)), law, shape, parents, most, most + 2, manner
                        )


def _depth(parents: Parents) -> int:
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 1)
    return max(depths)


def _remaining_places(drawn: list[int], depth: int) -> list[list[int]]:
    """The places of a block that `drawn` leaves out, and that after its end, two by two."""
    remaining = [place for place in range(depth + 1) if place not in drawn]
    return [remaining[at : at + 2] for at in range(0, len(remaining), 2)]


def _manners(manners: list[Manner], law: LawKind, parents: Parents) -> list[Manner]:
    if parents == chain_parents(len(parents)):
        return [*manners, "stops"] if law != "given" and len(parents) > 1 else manners
    if law != "given":
        return manners
    leaves_alone = not set(range(len(parents))) & set(parents)
    return [*manners, "twins", *(["sorted"] if leaves_alone else [])]  # type: ignore[list-item]


def _affordable(
    case: TinyCase, rule: AcceptanceRule, done: Done | None, settings: Mapping[str, Any]
) -> tuple[TinyCase, Pipeline]:
    """The case, over as many items as make for about `PATHS` paths, judged by its first round; and its pipeline."""
    while True:
        pipeline, tables = case.pipeline(rule, done, settings), case.tables
        if tables.vocabulary == 2:
            return case, pipeline
        prefixes = of_length = 1
        for length in range(case.limit - 1):
            of_length *= tables.end if tables.is_free(length) else 1
            prefixes += of_length
        most = PATHS // prefixes
        first_rounds = explore(partial(_round, pipeline, case, ()))
        if sum(1 for _ in islice(first_rounds, most + 1)) <= most:
            return case, pipeline
        case = case._replace(tables=dataclasses.replace(tables, vocabulary=tables.vocabulary - 1))


def _weighed(run: Callable[[Path], Result]) -> tuple[dict[Result, float], int]:
    """Each result's probability, and how many paths led to them."""
    probabilities: dict[Result, float] = {}
    paths = 0
    for result, probability in explore(run):
        probabilities[result] = probabilities.get(result, 0.0) + probability
        paths += 1
    return probabilities, paths


def _whole_sessions(pipeline: Pipeline, case: TinyCase) -> tuple[Answers, int]:
    def run(path: Path) -> tuple[int, ...]:
        session = Session(pipeline, case.task)
        drive(session, partial(_with_unknowns, path))
        assert session.outcome is not None
        return tuple(session.outcome.value or ())

    return _weighed(run)


def _round_by_round(pipeline: Pipeline, case: TinyCase) -> tuple[Answers, int]:
    """The answers, prefix by prefix, shortest first: a round's emissions times the probability of its prefix."""
    answers: Answers = {}
    states: dict[tuple[int, ...], float] = {(): 1.0}
    paths = 0
    for length in range(case.limit):
        for prefix in [state for state in states if len(state) == length]:
            weight = states.pop(prefix)
            results, followed = _weighed(partial(_round, pipeline, case, prefix))
            paths += followed
            # A rule that leaves the splice to a retry may emit nothing; the retries end in something, in proportion.
            nothing = results.pop(((), False), 0.0)
            if not results:
                raise DraftVerifyError(f"after {list(prefix)} no value is ever emitted")
            for (new, ended), probability in results.items():
                place = answers if ended else states
                sequence = (*prefix, *new)
                place[sequence] = place.get(sequence, 0.0) + weight * probability / (1.0 - nothing)
    return answers, paths


def _round(
    pipeline: Pipeline, case: TinyCase, prefix: tuple[int, ...], path: Path
) -> tuple[tuple[int, ...], bool]:
    """What one round after `prefix` emits, and whether the answer ends with it."""
    restore = [Round(index=0, decision=Decision(spliced=prefix, emitted=prefix))] if prefix else []
    session = Session(pipeline, case.task, restore=restore)
    drive(session, partial(_with_unknowns, path), rounds=len(restore) + 1)
    decision = session.rounds[-1].decision
    return tuple(map(int, decision.emitted)), decision.done


def _with_unknowns(path: Path, request: Request) -> Any:
    """Perform a request whose component reads unknowns in the place of its draws."""
    if isinstance(request, (Draft, Verify, Decide)):
        draws = request.context.draws
        stream: Any = Stream(path, (draws.key, draws.round))
        context = msgspec.structs.replace(request.context, draws=stream)
        request = msgspec.structs.replace(request, context=context)
    if isinstance(request, Decide):
        rng: Any = Stream(path, (request.rng.key, request.rng.round))
        request = msgspec.structs.replace(request, rng=rng)
    return perform(request)


def _target_answers(case: TinyCase, done: Done | None, settings: Mapping[str, Any]) -> Answers:
    """What the target itself emits, item by item, stopped by the same rule at every item."""
    context, ending = make_context(case.task, settings=settings), case.ending(done)
    answers: Answers = {}
    states: Answers = {(): 1.0}
    while states:
        following: Answers = {}
        for prefix, weight in states.items():
            row = case.tables.p(prefix)
            for item in map(int, row.nonzero()[0]):
                sequence = (*prefix, item)
                keep = ending(advanced(context, *sequence), (item,))
                place = following if keep is None else answers
                place[sequence if keep != 0 else prefix] = weight * float(row[item])
        states = following
    return answers


def stopping_problem(done: Done, settings: Mapping[str, Any]) -> str:
    """Why a stopping rule cannot be asked about a tiny task, which has token ids and nothing else; "" when it can."""
    try:
        _target_answers(TinyCase(TablePair(3, 0), "given", "chain", (), 0, 2), done, settings)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _difference(answers: Answers, target_answers: Answers) -> tuple[float, str]:
    """The largest difference of two distributions, and the answer that it is at."""
    sequences = answers.keys() | target_answers.keys()
    worst = max(sequences, key=lambda answer: abs(answers.get(answer, 0.0) - target_answers.get(answer, 0.0)))
    got, right = answers.get(worst, 0.0), target_answers.get(worst, 0.0)
    return abs(got - right), f"{list(worst)} comes with probability {got:.6g}; the target's is {right:.6g}"
