"""The rule `release`: nothing below the pool's failures, one item above them, and no answer when it gives up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from draftverify import (
    Answer,
    Budget,
    Check,
    ConfigError,
    Pipeline,
    Proposal,
    Verification,
    escalate,
    generator,
    retry,
    verifier,
)
from draftverify.calibration import PartIdentity, ReleaseArtifact, release_pool, write_artifact
from draftverify.engine.parts import identity_of
from draftverify.rules import Release, Withhold


class Scorer:
    """An item is its score; None is rejected, and a text is passed in another's place."""

    provides = frozenset({"verdicts", "scores"})

    def __init__(self, version: int = 1) -> None:
        self.version = version

    def verify(self, context: Any, proposal: Proposal) -> Verification:
        return Verification(
            checks=tuple(
                Check("reject", score=9.0, reason="bad") if item is None else Check("pass", score=item)
                for item in proposal.items
            )
        )


def drafting(function: Any) -> Any:
    """Whatever it drafts, it says that it is the generator that the pools were made with."""
    made = generator(function)
    made.identity = "drafts"
    return made


def pool(
    path: Path, failures: Sequence[Sequence[float | None]] = ((1.0, 2.0, 0.0),) * 19, of: Any = None
) -> Path:
    """A file of these failures."""
    judge = of if of is not None else Scorer()
    made = ReleaseArtifact(
        pool=release_pool(failures),
        generator=PartIdentity("drafts", identity_of(drafting(list))),
        verifier=PartIdentity(type(judge).__name__, identity_of(judge)),
        metric="right",
        tasks=len(failures),
    )
    write_artifact(path, made)
    return path


def run(path: Path, items: Sequence[Any], *, block: int = 1, rounds: int = 9, **more: Any) -> Any:
    """A task with these items, drafted in order."""
    drafted = drafting(lambda context, n: list(items[context.drafted : context.drafted + n]))
    rule = Release(pool(path), alpha=0.05)
    with Pipeline(drafted, Scorer(), rule, policy=retry(rounds), block=block, **more) as pipeline:
        return pipeline.run("x")


def test_the_first_above_all_failures_is_released(tmp_path: Path) -> None:
    """As high as they are is not enough; the task ends there."""
    outcome = run(tmp_path / "pool.json", [1.0, 2.0, 2.1, 5.0])
    assert (outcome.status, outcome.value, outcome.score, outcome.rounds) == ("accepted", 2.1, 2.1, 3)


def test_of_a_block_the_highest_is_released(tmp_path: Path) -> None:
    """Among those that may be."""
    outcome = run(tmp_path / "pool.json", [3.0, 1.0, 4.0], block=3)
    assert (outcome.status, outcome.value, outcome.rounds) == ("accepted", 4.0, 1)


def test_tries_after_the_pools_last_are_not_released(tmp_path: Path) -> None:
    """The pool's tasks had three; in the block after them the task has no answer, and the best is shown as refused."""
    outcome = run(tmp_path / "pool.json", [0.0, 1.0, 0.5, 9.0])
    assert (outcome.status, outcome.value, outcome.rounds) == ("abstained", None, 4)
    assert "Release" in outcome.reason
    within = run(tmp_path / "pool.json", [0.0, 1.0, 0.5, 9.0], block=4, rounds=1)
    assert (within.status, within.value, within.rounds) == ("abstained", None, 2)


def test_giving_up_is_no_answer_with_the_best_as_refused(tmp_path: Path) -> None:
    """By the policy, and by the budget."""
    outcome = run(tmp_path / "pool.json", [0.5, 1.5], rounds=1)
    assert (outcome.status, outcome.value) == ("abstained", None)
    assert (outcome.refused.value, outcome.refused.score) == (1.5, 1.5)
    spent = run(tmp_path / "pool.json", [0.5, 1.5], budget=Budget(rounds=2))
    assert (spent.status, spent.value, spent.refused.value) == ("exhausted", None, 1.5)


def test_what_the_verifier_rejects_is_a_try_and_never_released(tmp_path: Path) -> None:
    """Whatever its score."""
    outcome = run(tmp_path / "pool.json", [None, None, None, 9.0])
    assert (outcome.status, outcome.rounds) == ("abstained", 4)


def test_what_a_person_accepts_is_released(tmp_path: Path) -> None:
    """Without a score."""
    drafted = drafting(lambda context, n: [1.0])
    rule = Release(pool(tmp_path / "pool.json"))
    with Pipeline(drafted, Scorer(), rule, policy=escalate(), block=1) as pipeline:
        outcome = pipeline.run("x", ask=lambda request: Answer("accept"))
    assert (outcome.status, outcome.value, outcome.score) == ("accepted", 1.0, None)


def test_a_correction_is_released_in_the_items_place(tmp_path: Path) -> None:
    """As with other rules that select."""
    judge = verifier(lambda context, item: Check("pass", score=9.0, correction="made"), scores=True)
    rule = Release(pool(tmp_path / "pool.json", of=judge))
    outcome = Pipeline(drafting(lambda context, n: ["raw"]), judge, rule, block=1).run("x")
    assert (outcome.status, outcome.value, outcome.score) == ("accepted", "made", 9.0)


@pytest.mark.parametrize("opened", [True, False])
def test_another_verifiers_pool_is_refused(tmp_path: Path, opened: bool) -> None:
    """As the pipeline opens or at its first task, within another pipeline too: the scores may mean something else."""
    rule = Release(pool(tmp_path / "pool.json"))
    inner = Pipeline(drafting(lambda context, n: [1.0]), Scorer(version=2), rule)
    outer = Pipeline(inner, Scorer(), Withhold())
    for pipeline, path in ((inner, "rule.pool"), (outer, "generator.rule.pool")):
        with pytest.raises(
            ConfigError, match=r"made with the verifier Scorer .* `draftverify fit CONFIG --rel"
        ) as caught:
            pipeline.open() if opened else pipeline.run("x")
        assert caught.value.path == path


def test_a_pool_that_is_missing_or_too_small_is_refused(tmp_path: Path) -> None:
    """With what to do about it."""
    drafted = drafting(lambda context, n: [1.0])
    with pytest.raises(ConfigError, match=r"`draftverify fit CONFIG --release` writes it"):
        Pipeline(drafted, Scorer(), Release(tmp_path / "none.json")).open()
    small = pool(tmp_path / "pool.json", [[1.0]] * 18)
    with pytest.raises(ConfigError, match=r"has 18 failed tasks, and alpha 0\.05 needs 19"):
        Pipeline(drafted, Scorer(), Release(small)).open()
    with pytest.raises(ConfigError, match="alpha"):
        Release(small, alpha=1.0)


def test_scores_add_up_to_a_release(tmp_path: Path) -> None:
    """The pool's tasks scored 1 once in eight tries; one that does so each time is released, and by its highest not."""
    failures = [[1.0 if t == i % 8 else 0.0 for t in range(8)] for i in range(40)]
    path = pool(tmp_path / "pool.json", failures)
    found = []
    for evidence in ("highest", "product"):
        rule = Release(path, evidence=evidence)  # type: ignore[arg-type]
        one = Pipeline(drafting(lambda context, n: [1.0]), Scorer(), rule, policy=retry(7), block=1)
        found.append(one.run("x"))
    assert [outcome.status for outcome in found] == ["abstained", "accepted"]
    assert 1 < found[1].rounds <= 8
    with pytest.raises(ConfigError, match="evidence is 'sum'"):
        Release(path, evidence="sum")  # type: ignore[arg-type]


def test_the_pool_of_another_generator_or_of_other_settings_is_refused(tmp_path: Path) -> None:
    """Its tries reach other scores by luck."""
    path = pool(tmp_path / "pool.json")
    with pytest.raises(ConfigError, match="was made with the generator drafts") as caught:
        Pipeline(generator(lambda context, n: [1.0]), Scorer(), Release(path), block=1).open()
    assert caught.value.path == "rule.pool"
    with pytest.raises(ConfigError, match="was made with the settings"):
        Pipeline(
            drafting(lambda c, n: [1.0]), Scorer(), Release(path), block=1, settings={"temperature": 1.0}
        ).open()
