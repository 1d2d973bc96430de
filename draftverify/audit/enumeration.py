"""The rule on tiny models, exactly: every answer's probability over all random draws, against the target's own.

Sessions are real ones: proposals are checked, the rule decides, `done` cuts inside the block, and rounds follow each
other down to the end of the answer. Only the random numbers are unknowns (see `unknowns`), so nothing is sampled. What
a round emits depends on the accepted items alone, so rounds are enumerated prefix by prefix and put together; the
smallest cases run whole sessions, in which a part may also remember things that it should not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec

from draftverify.audit.driving import drive, perform
from draftverify.audit.report import Enumeration
from draftverify.audit.tables import Manner, Parents, Table, TableDraft, TableTarget, layouts
from draftverify.audit.unknowns import NotEnumerable, Path, Stream, explore
from draftverify.engine.pipeline import Pipeline
from draftverify.engine.requests import Decide, Draft, Request, Verify
from draftverify.engine.session import Session
from draftverify.errors import DraftVerifyError
from draftverify.protocols import AcceptanceRule, Done, Generator
from draftverify.values import Context, Decision, LawKind, Round, Shape, Task

__all__ = [
    "Answers",
    "Case",
    "Ending",
    "answers_of",
    "cases",
    "enumerate_rule",
    "stopping_problem",
    "target_answers",
]

Answers: TypeAlias = "dict[tuple[int, ...], float]"
"""The probability of each answer."""

TOLERANCE = 1e-12
PATHS = 3000
"""About so many ways through a case are followed; a rule that looks at more numbers gets a smaller vocabulary."""


class Case(NamedTuple):
    """A tiny pipeline: what is drafted how, by which law, in blocks of how many."""

    table: Table
    law: LawKind
    shape: Shape
    parents: Parents
    block: int
    limit: int
    manner: Manner = "full"
    whole: bool = False

    @property
    def drafter(self) -> TableDraft:
        """Of the tiny pipeline."""
        return TableDraft(self.table, self.law, self.shape, self.parents, self.manner)

    def __str__(self) -> str:
        what = self.shape if self.shape != "tree" else f"tree {list(self.parents)}"
        return (
            f"{what} of law {self.law} ({self.manner}), block {self.block}, {self.table.vocabulary} items, table "
            f"{self.table.seed}"
        )


class Ending:
    """The stopping rule of a tiny session: the pipeline's own, and a limit of a few items besides.

    Without one of its own: the table's end item, which is the last one kept.

    Args:
        limit: the most items in an answer.
        end: the item that ends an answer.
        done: the pipeline's.
    """

    def __init__(self, limit: int, end: int, done: Done | None = None) -> None:
        self.limit = limit
        self.end = end
        self.done = done

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """How many of the new values to keep, where the answer ends among them."""
        before = len(context.accepted) - len(new)
        ends = [self.limit - before] if len(context.accepted) >= self.limit else []
        if self.done is not None:
            kept = self.done(context, new)
            ends += [] if kept is None else [kept]
        elif self.end in new:
            ends.append(new.index(self.end) + 1)
        return min(ends, default=None)


def enumerate_rule(
    rule: AcceptanceRule,
    *,
    laws: Iterable[LawKind],
    shapes: Iterable[Shape],
    most: int,
    done: Done | None = None,
    settings: Any = None,
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
    for case in cases(laws, shapes, most, greedy=greedy):
        try:
            case = affordable(case, rule, done=done, settings=settings)
            found, followed = answers_of(case, rule, case.drafter, done=done, settings=settings)
        except NotEnumerable:
            raise
        except Exception as error:
            found, followed = {}, 0
            failures.append(f"{case}: {type(error).__name__}: {error}")
        else:
            far, message = difference(found, target_answers(case, done=done, settings=settings))
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


def cases(
    laws: Iterable[LawKind], shapes: Iterable[Shape], most: int, *, greedy: bool = False
) -> Iterator[Case]:
    """The tiny pipelines, the quickest first: every law and shape, every block up to 3, and the largest one."""
    table = partial(Table, greedy=greedy)
    sizes = [n for n in (1, 2, 3) if n <= most]
    laws = tuple(laws)
    yield Case(table(6, 1, mixed=True), laws[0], "chain", (), 0, 3)
    for law in laws:
        manners: list[Manner] = ["likely", "unlikely", "unknown"] if law == "given" else ["full"]
        for shape in shapes:
            for n in sizes:
                V, limit = {1: (6, 3), 2: (5, 3), 3: (4, 3)}[n]
                for parents in layouts(shape, n):
                    for manner in _manners(manners, law, parents):
                        yield Case(table(V, 10 + n), law, shape, parents, n, limit, manner)
                        if n < 3:
                            yield Case(table(4, 20 + n, mixed=True), law, shape, parents, n, limit, manner)
            n = min(most, 2)
            if n:
                parents = layouts(shape, n)[0]
                yield Case(table(2, 31), law, shape, parents, n, 3, manners[-1], whole=True)
            if most > 3:
                free = sorted({0, most // 2, most - 1}) if shape == "chain" else [0, 1, 2]
                for parents in layouts(shape, most):
                    many = shape != "chain" and parents.count(-1) > 3
                    manner = "likely" if law == "given" else "full"
                    if many and law == "iid":
                        continue  # so many siblings from one row are too many paths
                    for places in (free, *_others(free, _depth(parents))):
                        yield Case(
                            table(3, 41, free=frozenset(places)), law, shape, parents, most, most + 2, manner
                        )


def _depth(parents: Parents) -> int:
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 1)
    return max(depths)


def _others(free: list[int], depth: int) -> list[list[int]]:
    """The places of a block that `free` leaves out, and that after its end, two by two."""
    left = [place for place in range(depth + 1) if place not in free]
    return [left[at : at + 2] for at in range(0, len(left), 2)]


def _manners(manners: list[Manner], law: LawKind, parents: Parents) -> list[Manner]:
    is_chain = parents == tuple(range(-1, len(parents) - 1))
    if is_chain:
        return [*manners, "stops"] if law != "given" and len(parents) > 1 else manners
    if law != "given":
        return manners
    leaves_alone = not set(range(len(parents))) & set(parents)
    return [*manners, "twins", *(["sorted"] if leaves_alone else [])]  # type: ignore[list-item]


def affordable(case: Case, rule: AcceptanceRule, *, done: Done | None = None, settings: Any = None) -> Case:
    """The case, over as many items as make for about `PATHS` paths, judged by its first round."""
    while case.table.vocabulary > 2:
        pipeline = _pipeline(case, rule, case.drafter, done, settings)
        first = sum(1 for _ in explore(partial(_round, pipeline, case, ())))
        prefixes = of_length = 1
        for length in range(case.limit - 1):
            of_length *= case.table.vocabulary - 1 if case.table.is_free(length) else 1
            prefixes += of_length
        if first * prefixes <= PATHS:
            break
        case = case._replace(table=case.table.smaller())
    return case


def _pipeline(
    case: Case, rule: AcceptanceRule, drafter: Generator, done: Done | None, settings: Any
) -> Pipeline:
    return Pipeline(
        drafter,
        TableTarget(case.table),
        rule,
        block=case.block,
        done=Ending(case.limit, case.table.end, done),
        settings=settings or {},
    )


def answers_of(
    case: Case, rule: AcceptanceRule, drafter: Generator, *, done: Done | None = None, settings: Any = None
) -> tuple[Answers, int]:
    """The probability of each answer of a tiny pipeline, and how many paths were followed.

    Raises:
        ContractError: a part broke its contract.
        NotEnumerable: a part uses random numbers in a way that cannot be followed.
    """
    pipeline = _pipeline(case, rule, drafter, done, settings)
    return _whole_sessions(pipeline, case) if case.whole else _round_by_round(pipeline, case)


def _task(case: Case) -> Task:
    end = case.table.end
    return Task(id="audit", input={"prompt_ids": [], "eos_ids": [end], "vocabulary": case.table.vocabulary})


def _whole_sessions(pipeline: Pipeline, case: Case) -> tuple[Answers, int]:
    found: Answers = {}
    paths = 0
    for value, probability in explore(lambda path: _outcome(pipeline, case, path)):
        found[value] = found.get(value, 0.0) + probability
        paths += 1
    return found, paths


def _outcome(pipeline: Pipeline, case: Case, path: Path) -> tuple[int, ...]:
    session = Session(pipeline, _task(case))
    drive(session, partial(_with_unknowns, session, path))
    assert session.outcome is not None
    return tuple(session.outcome.value or ())


def _round_by_round(pipeline: Pipeline, case: Case) -> tuple[Answers, int]:
    """Prefix by prefix, shortest first: a round's emissions times the probability of coming to its prefix."""
    found: Answers = {}
    states: dict[tuple[int, ...], float] = {(): 1.0}
    paths = 0
    for length in range(case.limit):
        for prefix in [state for state in states if len(state) == length]:
            weight = states.pop(prefix)
            after: dict[tuple[tuple[int, ...], bool], float] = {}
            for end, probability in explore(partial(_round, pipeline, case, prefix)):
                after[end] = after.get(end, 0.0) + probability
                paths += 1
            # A rule that leaves the splice to a retry may emit nothing; the retries end in something, in proportion.
            nothing = after.pop(((), False), 0.0)
            if not after:
                raise DraftVerifyError(f"after {list(prefix)} no value is ever emitted")
            for (new, ended), probability in after.items():
                place = found if ended else states
                sequence = (*prefix, *new)
                place[sequence] = place.get(sequence, 0.0) + weight * probability / (1.0 - nothing)
    return found, paths


def _round(
    pipeline: Pipeline, case: Case, prefix: tuple[int, ...], path: Path
) -> tuple[tuple[int, ...], bool]:
    """What one round after `prefix` emits, and whether the answer ends with it."""
    restore = [Round(index=0, decision=Decision(spliced=prefix, emitted=prefix))] if prefix else []
    session = Session(pipeline, _task(case), restore=restore)
    drive(session, partial(_with_unknowns, session, path), rounds=len(restore) + 1)
    decision = session.rounds[-1].decision
    return tuple(map(int, decision.emitted)), decision.done


def _with_unknowns(session: Session, path: Path, request: Request) -> Any:
    """Perform a request whose component reads unknowns in the place of its draws."""
    if isinstance(request, (Draft, Verify, Decide)):
        draws = request.context.draws
        stream: Any = Stream(path, (draws.key, draws.round))
        context = msgspec.structs.replace(request.context, draws=stream)
        request = msgspec.structs.replace(request, context=context)
    if isinstance(request, Decide):
        rng: Any = Stream(path, (request.rng.key, request.rng.round))
        request = msgspec.structs.replace(request, rng=rng)
    return perform(session, request)


def target_answers(case: Case, *, done: Done | None = None, settings: Any = None) -> Answers:
    """What the target itself emits, item by item, stopped by the same rule at every item."""
    ending: Callable[[Context, tuple[Any, ...]], int | None] = Ending(case.limit, case.table.end, done)
    pipeline = Pipeline(
        TableDraft(case.table, "given", "chain", ()),
        TableTarget(case.table),
        _Plain(),
        settings=settings or {},
    )
    found: Answers = {}
    states: Answers = {(): 1.0}
    while states:
        following: Answers = {}
        for prefix, weight in states.items():
            row = case.table.p(prefix)
            for item in map(int, row.nonzero()[0]):
                sequence = (*prefix, item)
                emitted = Decision(spliced=sequence, emitted=sequence)
                session = Session(pipeline, _task(case), restore=[Round(index=0, decision=emitted)])
                (request,) = session.requests()
                keep = ending(request.context, (item,))  # type: ignore[union-attr]
                place = following if keep is None else found
                place[sequence if keep != 0 else prefix] = weight * float(row[item])
        states = following
    return found


def stopping_problem(done: Done, settings: Any = None) -> str:
    """Why a stopping rule cannot be asked about a tiny task, which has token ids and nothing else; "" when it can."""
    try:
        target_answers(Case(Table(3, 0), "given", "chain", (), 0, 2), done=done, settings=settings)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


class _Plain:
    """A rule for a pipeline that is only asked for contexts."""

    needs = frozenset({"target"})

    def decide(self, *_: Any) -> Decision:
        raise NotImplementedError


def difference(found: Answers, wanted: Answers) -> tuple[float, str]:
    """The largest difference of two distributions, and the answer that it is at."""
    answers = found.keys() | wanted.keys()
    worst = max(answers, key=lambda answer: abs(found.get(answer, 0.0) - wanted.get(answer, 0.0)))
    got, right = found.get(worst, 0.0), wanted.get(worst, 0.0)
    return abs(got - right), f"{list(worst)} comes with probability {got:.6g}; the target's is {right:.6g}"
