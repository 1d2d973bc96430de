"""A model that compares answers two by two, always in both orders: `llm.pairwise_judge`."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from draftverify import Check, Context, Cost, Evidence, Proposal, Task, Verification
from draftverify.exchanges import Exchange, noted
from draftverify.kit.audit import PairVerdict, Presented, Variation
from draftverify.traits import VerifierTraits
from draftverify_llm.judging import ModelJudge, answer_text, no_verdict, question_text, written_reason
from draftverify_llm.replies import VerdictReply, ask
from draftverify_llm.text import TextModel

Against: TypeAlias = Literal["all", "knockout"]
"""Which pairs are compared: every two; or n − 1 in rounds, of which each winner goes on (the earlier item on a tie)."""

NAMES = ("A", "B")


class PairwiseJudge(ModelJudge):
    """Asks a text model which of two answers is better, of each pair in both orders.

    An answer that is preferred in both orders wins; verdicts that change with the order, and ties, are half a win for
    each. Evidence `cross` is [n, n]: row i, column k how item i fares against item k, 1, ½ or 0, and NaN on the
    diagonal and where there was no verdict. An item's score is its mean over the pairs that were judged, its share of
    wins. A comparison says which answer is better and not which is good, so every item that was judged passes; one
    whose pairs all went without a verdict abstains, with the reply's words, or is an error where the calls failed; an
    item that is alone in its block abstains too. The rule `tournament` reads `cross`, `best` the scores. All prompts of
    all blocks go to the model together. `notes` keep each verdict by order.

    With weights that run here (`llm.local`) the likelier of the two names as the reply's first token is the verdict;
    other models are asked for the reply at temperature 0.

    Args:
        model: a text model.
        against: "all" compares every two, n (n − 1) / 2 pairs; "knockout" n − 1 pairs, in log₂ n passes.
        rubric: what answers are to be judged by, in words.
        reference: the field of the task that holds a right answer, which the judge is shown beside the two.
        reasons: ask for the verdict and then for the reason; the check of an item has the reasons for which others were
            preferred to it as feedback.
        prompt: a file with {question}, {first} and {second}, which asks for A or B, {rubric} and {expected} where there
            are such; when absent the one that comes with the package.
        paraphrases: the same in other words, for audits.
        max_tokens: of a reply that is read as text.
    """

    fields = ("question", "first", "second")
    kind = "pairwise"
    words = NAMES

    @cached_property
    def traits(self) -> VerifierTraits:
        """As its model's."""
        return self._traits({"verdicts", "scores", "cross"})

    def __init__(
        self,
        model: TextModel,
        against: Against = "all",
        prompt: Path | None = None,
        paraphrases: Sequence[Path] = (),
        max_tokens: int = 64,
        rubric: str | None = None,
        reference: str | None = None,
        reasons: bool = False,
    ) -> None:
        super().__init__(model, rubric, reference, reasons, prompt, paraphrases, max_tokens)
        self.against = against

    @property
    def varies(self) -> frozenset[Variation]:
        """What an audit can change."""
        return super().varies | {"order", "names"}

    @property
    def identity(self) -> str:
        """A hash of the model and the prompt; the audit's other wordings, and which pairs are compared, are none."""
        return self._identity("pairwise")

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """The blocks of many tasks, each round of their comparisons asked together."""
        return compared(contexts, proposals, self.compare, self.against, right=self._right)

    def compare(self, pairs: Sequence[Presented]) -> list[PairVerdict]:
        """A word on each pair, in the order in which it is presented; what an audit asks."""
        texts = [self._prompted(pair) for pair in pairs]
        replies = ask(self.model, texts, NAMES, self.max_tokens, whole=self.reasons)
        return [_said(reply, pair.names_exchanged) for reply, pair in zip(replies, pairs, strict=True)]

    def _prompted(self, pair: Presented) -> str:
        first, second = reversed(NAMES) if pair.names_exchanged else NAMES
        texts = {"question": ("question", pair.question)}
        texts |= {"first": (f"answer {first}", pair.first), "second": (f"answer {second}", pair.second)}
        return self._filled(pair.wording, texts, pair.reference)


def _said(reply: VerdictReply, exchanged: bool) -> PairVerdict:
    if reply.verdict is None:
        return PairVerdict(None, why=reply.why, words=reply.text, cost=reply.cost, exchange=reply.exchange)
    score = reply.logprobs[0] - reply.logprobs[1] if reply.logprobs else None
    if score is not None and exchanged:
        score = -score
    first_wins = (reply.verdict == 0) != exchanged
    if (
        score is not None
    ):  # a name has several tokens, and the likeliest of them may be of the less likely name
        first_wins = score > 0
    choice: Literal["first", "second", "tie"] = "tie" if score == 0 else "first" if first_wins else "second"
    return PairVerdict(choice, score, words=reply.text, cost=reply.cost, exchange=reply.exchange)


class BlockComparison:
    """One block's comparisons as they come in.

    Args:
        n: how many items.
        against: which pairs.
    """

    def __init__(self, n: int, against: Against) -> None:
        self.cross = np.full((n, n), math.nan)
        self.verdicts: list[dict[str, Any]] = []
        self.unsaid: dict[int, PairVerdict] = {}
        self.objections: dict[int, list[str]] = {}
        self.cost = 0.0
        self._exchanges: list[Exchange] = []
        self._against = against

    def rounds(self) -> Generator[list[tuple[int, int]], None, None]:
        """The pairs of each round; those of the round before have been taken by then."""
        n = len(self.cross)
        if self._against == "all":
            yield [(i, k) for i in range(n) for k in range(i + 1, n)]
            return
        standing = list(range(n))
        while len(standing) > 1:
            pairs = [(min(pair), max(pair)) for pair in zip(standing[::2], standing[1::2], strict=False)]
            yield pairs
            # Who was left over comes first, and is not left over again: one that is compared once, last, would have
            # fewer wins to show than those who lost to it.
            over = standing[len(pairs) * 2 :]
            standing = over + [k if self.cross[i, k] == 0.0 else i for i, k in pairs]

    def take(self, pair: tuple[int, int], answers: Sequence[PairVerdict]) -> None:
        """One pair's words: as it stands, and in the other order where that was asked."""
        i, k = pair
        wins = []
        for order, answer in enumerate(answers):
            self.cost += answer.cost
            if answer.exchange is not None:
                self._exchanges.append(answer.exchange.about(None))
            note = {"pair": [i, k], "first": i if order == 0 else k, "choice": answer.choice}
            note |= {name: value for name in ("why", "words") if (value := getattr(answer, name))}
            self.verdicts.append(note if answer.score is None else {**note, "score": answer.score})
            if answer.choice is not None:
                wins.append({"first": 1.0, "tie": 0.5, "second": 0.0}[answer.choice])
                if answer.choice != "tie" and (reason := written_reason(answer.words)):
                    beaten = 1 if answer.choice == "first" else 0  # by its place in the prompt
                    objections = self.objections.setdefault(pair[beaten ^ order], [])
                    objections.append(f"as answer {NAMES[beaten]}: {reason}")
            else:
                # What failed says more than what was said otherwise.
                for item in pair:
                    if item not in self.unsaid or answer.why in ("error", "timeout"):
                        self.unsaid[item] = answer
        if len(wins) < len(answers):
            return
        ours = [win if order == 0 else 1.0 - win for order, win in enumerate(wins)]
        value = ours[0] if all(win == ours[0] for win in ours) else 0.5
        self.cross[i, k], self.cross[k, i] = value, 1.0 - value

    def verification(self) -> Verification:
        """What came of it."""
        return Verification(
            checks=tuple(self._check(item) for item in range(len(self.cross))),
            evidence=Evidence(cross=self.cross),
            cost=Cost(amount=self.cost) if self.cost else None,
            notes={"verdicts": self.verdicts, **noted(self._exchanges)},
        )

    def _check(self, item: int) -> Check:
        row = self.cross[item]
        results = row[~np.isnan(row)]
        if len(results):
            return Check("pass", float(results.mean()), feedback="\n".join(self.objections.get(item, ())))
        if item in self.unsaid:
            return no_verdict(self.unsaid[item].why, self.unsaid[item].words)
        return Check("abstain", reason="nothing to compare with")


def compared(
    contexts: Sequence[Context],
    proposals: Sequence[Proposal],
    compare: Any,
    against: Against,
    *,
    orders: int = 2,
    right: Callable[[Task], str | None] = lambda task: None,
) -> list[Verification]:
    """Compare the items of blocks, each pair in both orders.

    Args:
        contexts, proposals: of the blocks.
        compare: as `PairwiseJudge.compare`.
        against: which pairs.
        orders: 1 asks for each pair as it stands alone.
        right: the right answer of a task, which is shown with its pairs.

    Raises:
        ContractError: a task has no question, or an item is no text.
    """
    blocks = [BlockComparison(len(proposal.items), against) for proposal in proposals]
    questions = [question_text(context.task) for context in contexts]
    references = [right(context.task) for context in contexts]
    texts = [[answer_text(item) for item in proposal.items] for proposal in proposals]
    going = [(place, block.rounds()) for place, block in enumerate(blocks)]
    while going:
        now = [(place, pairs, rounds) for place, rounds in going if (pairs := next(rounds, None)) is not None]
        presented = [
            Presented(questions[place], texts[place][i], texts[place][k], reference=references[place])
            for place, pairs, _ in now
            for pair in pairs
            for i, k in (pair, pair[::-1])[:orders]
        ]
        answers = compare(presented) if presented else []
        at = 0
        for place, pairs, _ in now:
            for pair in pairs:
                blocks[place].take(pair, answers[at : at + orders])
                at += orders
        going = [(place, rounds) for place, _, rounds in now]
    return [block.verification() for block in blocks]
