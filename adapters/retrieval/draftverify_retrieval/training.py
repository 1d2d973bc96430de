"""Training a reader from questions, passages and answers: `draftverify fit part reader CONFIG`.

    OUT/checkpoint.safetensors   the span head and its optimiser after the last whole epoch, until the training is done
    OUT/reader.json, OUT/reader.safetensors   the reader (reader.py)

The encoder stays as it is, so that a few hundred questions suffice and a core does it in minutes. The span head learns
from the passages with answers, by gradient descent. Answerability is a logistic regression on how question and passage
match (matching.PAIR_FEATURES); its negatives are the passages that BM25 finds for the question among those that do not
answer it.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from draftverify import ConfigError
from draftverify.stats import auroc
from draftverify_llm import (
    held_out,
    load_checkpoint,
    need,
    optimiser_tensors,
    read_rows,
    restore_optimiser,
    save_checkpoint,
    weights_identity,
)
from draftverify_retrieval.answers import exact_match, f1
from draftverify_retrieval.pretrained import Pretrained, load
from draftverify_retrieval.reader import Learned
from draftverify_retrieval.reading import QuestionPassage
from draftverify_retrieval.tasks import Half, paragraphs, questions

if TYPE_CHECKING:
    from draftverify_retrieval.matching import EncodedText, Match

__all__ = ["ReaderTraining"]

Progress = Callable[[int, int, str], None]

_BATCH = 16
_RATE = 2e-3
_DECAY = 0.1
_HELD_STATES = 4096
"""How many texts' states are kept, some 600 KB each; of more, the rest is read anew each time."""

_CHUNK = 64
_RIDGE = 1e-3
_BINS = 10


@dataclass(frozen=True)
class _PassageQuestion:
    """A question about a passage.

    Args:
        question: its text.
        passage: the passage's place among all.
        answers: the right ones; () where the passage has none.
        spans: where they stand in the passage, in characters.
    """

    question: str
    passage: int
    answers: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


class ReaderTraining:
    """Trains a reader (`retrieval.reader`).

    Args:
        data: a .json file in SQuAD's layout, 1.1 or 2.0; or a .jsonl file whose lines have `question`, `passage` and
            `answers`: texts, or mappings with `text` and `start` (characters); [] where the passage does not answer the
            question.
        half: of SQuAD's layout, the paragraphs that are used; the others can then be measured on.
        encoder: a sentence encoder: a catalogue name, a directory or a hub id.
        held_out: the share of passages that are kept for the report, 0 to 0.5; their questions are not trained on.
        epochs: how often the span head sees each question.
        negatives: passages without the answer for each question, those that BM25 ranks highest.
        seed: of the order, the dropout and the head's first weights; which passages are held out does not depend on it.
        device: a torch device for the encoder; "auto" is "cuda" where there is one, else "cpu".
    """

    def __init__(
        self,
        data: Path,
        half: Half = "all",
        encoder: str | Path = "all-minilm-l6-v2",
        held_out: float = 0.1,
        epochs: int = 8,
        negatives: int = 5,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.data = data
        self.half = half
        self.encoder = encoder
        self.held_out = held_out
        self.epochs = epochs
        self.negatives = negatives
        self.seed = seed
        self.device = device

    def train(self, out: Path, progress: Progress = lambda step, total, message: None) -> dict[str, Any]:
        """Train, or go on from the last whole epoch that lies in `out`; the result is the same.

        Args:
            out: a directory for the reader.
            progress: told (step, of how many, what is done).

        Returns:
            The report: on the held-out passages' questions EM and F1 of the span in the right passage, AUROC of
            answerability (the right passage against the negatives), and bins of probability against share.

        Raises:
            ConfigError: an argument is out of its range, the data cannot be read, or `out` has another training.
            ResourceError: the encoder or a package is missing.
        """
        self._check()
        need("torch", "transformers", "bm25s", doing="training a reader", extra="retrieval")
        texts, examples = _read(Path(self.data), self.half)
        out = Path(out)
        work = _ReaderTrainingRun(self, load(str(self.encoder), self.device), texts, examples, out)
        return work.run(progress)

    def _check(self) -> None:
        for name, fits, requirement in (
            ("held_out", 0 <= self.held_out <= 0.5, "from 0 to 0.5"),
            ("epochs", self.epochs >= 1, "at least 1"),
            ("negatives", self.negatives >= 1, "at least 1"),
        ):
            if not fits:
                raise ConfigError(f"{name} must be {requirement}, not {getattr(self, name)}", path=name)


class _ReaderTrainingRun:
    """One training, with what it has read."""

    def __init__(
        self,
        settings: ReaderTraining,
        encoder: Pretrained,
        texts: list[str],
        examples: list[_PassageQuestion],
        out: Path,
    ) -> None:
        from draftverify_retrieval.matching import Rarity

        self.settings = settings
        self.encoder = encoder
        self.texts = texts
        self.out = out
        self.name = (str(settings.encoder), weights_identity(encoder.directory, {}))
        held = held_out(texts, settings.held_out)
        self.trained = [example for example in examples if example.passage not in held]
        self.held = [example for example in examples if example.passage in held]
        if not any(example.spans for example in self.trained):
            raise ConfigError(
                "no question with an answer is left to train on; use more data, or hold out less",
                where=str(settings.data),
            )
        rows = [i for i in range(len(texts)) if i not in held]
        rarity = Rarity({}, 0)
        counts = Counter(term for i in rows for term in rarity.terms(texts[i]))
        self.rarity = Rarity(counts, len(rows))
        # Held-out questions are measured against all passages, as they would be found.
        self.rivals = _rivals(texts, self.rarity, rows, settings.negatives)
        self.all_rivals = _rivals(texts, self.rarity, list(range(len(texts))), settings.negatives)
        self._states: dict[str, list[EncodedText]] = {}
        self.mark = hashlib.sha256(
            json.dumps([
                *self.name, settings.half, settings.held_out, settings.epochs, settings.negatives, settings.seed, texts,
                [(example.question, example.passage, example.spans) for example in examples],
            ]).encode()
        ).hexdigest()  # fmt: skip

    def run(self, progress: Progress) -> dict[str, Any]:
        texts = list(
            dict.fromkeys([*self.texts, *(example.question for example in (*self.trained, *self.held))])
        )
        texts = texts[:_HELD_STATES]
        chunks = math.ceil(len(texts) / _CHUNK)
        total = chunks + self.settings.epochs + 2
        for chunk in range(chunks):
            self._hold(texts[chunk * _CHUNK : (chunk + 1) * _CHUNK])
            progress(chunk + 1, total, "reading")
        head = self._spans(lambda epoch, loss: progress(chunks + epoch, total, f"span loss {loss:.3f}"))
        progress(total - 2, total, "weighing what tells an answer")
        weights, bias = self._answerability()
        learned = Learned(self.name, head, self.rarity, weights, bias)
        progress(total - 1, total, "measuring on what was held out")
        report = self._report(learned)
        learned.save(self.out)
        (self.out / "checkpoint.safetensors").unlink(missing_ok=True)
        progress(total, total, "done")
        return report

    # The span head

    def _spans(self, tell: Callable[[int, float], None]) -> Any:
        import torch
        from torch.nn.functional import cross_entropy

        from draftverify_retrieval.matching import SpanHead

        settings = self.settings
        answered = [example for example in self.trained if example.spans]
        steps = settings.epochs * math.ceil(len(answered) / _BATCH)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            head = SpanHead(int(self.encoder.model.config.hidden_size))
            optimiser = torch.optim.AdamW(head.parameters(), lr=_RATE, weight_decay=_DECAY)
            begun = self._load(head, optimiser)
            for epoch in range(begun, settings.epochs):
                # Order and dropout depend on (seed, epoch) alone, so that a resumed training is the same.
                torch.manual_seed(settings.seed * 1_000_003 + epoch)
                order = random.Random(f"{settings.seed} {epoch}").sample(answered, len(answered))
                step, losses = epoch * math.ceil(len(answered) / _BATCH), []
                head.train()
                for start in range(0, len(order), _BATCH):
                    step += 1
                    for group in optimiser.param_groups:
                        group["lr"] = _RATE * min(
                            step / (0.1 * steps), (steps - step + 1) / (0.9 * steps), 1.0
                        )
                    batch = [
                        target
                        for example in order[start : start + _BATCH]
                        if (target := self._target(example))
                    ]
                    if not batch:
                        continue
                    logits = head([match for match, _ in batch])
                    targets = torch.tensor([place for _, place in batch])
                    loss = cross_entropy(logits[..., 0], targets[:, 0]) + cross_entropy(
                        logits[..., 1], targets[:, 1]
                    )
                    optimiser.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
                    optimiser.step()
                    losses.append(float(loss.detach()))
                self._save(head, optimiser, epoch + 1)
                tell(epoch + 1, float(np.mean(losses)) if losses else math.nan)
        return head.eval()

    def _target(self, example: _PassageQuestion) -> tuple[Match, tuple[int, int]] | None:
        """The first window that has the whole first answer, and the tokens that it begins and ends with."""
        begin, end = example.spans[0]
        for match in self._matches(example.question, example.passage):
            inside = [k for k, (a, b) in enumerate(match.window.offsets) if a < end and b > begin]
            if (
                inside
                and match.window.offsets[inside[0]][0] <= begin
                and match.window.offsets[inside[-1]][1] >= end
            ):
                return match, (inside[0], inside[-1])
        return None

    def _save(self, head: Any, optimiser: Any, epoch: int) -> None:
        tensors = {f"head.{name}": value for name, value in head.state_dict().items()}
        tensors |= optimiser_tensors(optimiser)
        save_checkpoint(self.out / "checkpoint.safetensors", self.mark, tensors, epoch=str(epoch))

    def _load(self, head: Any, optimiser: Any) -> int:
        """The epochs that lie in `out`, put into head and optimiser."""
        checkpoint = load_checkpoint(self.out / "checkpoint.safetensors", self.mark)
        if checkpoint is None:
            return 0
        tensors, notes = checkpoint
        head.load_state_dict(
            {name.removeprefix("head."): value for name, value in tensors.items() if name.startswith("head.")}
        )
        restore_optimiser(optimiser, tensors)
        return int(notes["epoch"])

    # Answerability

    def _answerability(self) -> tuple[list[float], float]:
        """Logistic regression on the pairs' features, by Newton's method with a small ridge, in float64."""
        features, labels = self._pairs(self.trained, self.rivals)
        centre, spread = features.mean(0), features.std(0) + 1e-9
        x = np.column_stack([(features - centre) / spread, np.ones(len(features))])
        ridge = np.diag([_RIDGE] * features.shape[1] + [0.0])
        w = np.zeros(x.shape[1])
        for _ in range(100):
            p = 1 / (1 + np.exp(-x @ w))
            step = np.linalg.solve(
                (x.T * (p * (1 - p))) @ x / len(x) + ridge + 1e-9 * np.eye(len(w)),
                x.T @ (p - labels) / len(x) + ridge @ w,
            )
            w -= step
            if np.abs(step).max() < 1e-9:
                break
        weights = w[:-1] / spread
        return [float(weight) for weight in weights], float(w[-1] - weights @ centre)

    def _pairs(
        self, examples: Iterable[_PassageQuestion], rivals: Callable[[str, int], list[int]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Features [n, 5] and labels [n] of questions with their own passages and with those of others."""
        features, labels = [], []
        for example in examples:
            for passage in [example.passage, *rivals(example.question, example.passage)]:
                is_right = passage == example.passage and bool(example.answers)
                windows = self._matches(example.question, passage)
                if is_right and (target := self._target(example) if example.spans else None):
                    windows = [target[0]]
                for match in windows:
                    features.append(match.pair.tolist())
                    labels.append(float(is_right))
        if len(set(labels)) < 2:
            raise ConfigError(
                "answerability needs passages with an answer and others without; use more than one passage",
                where=str(self.settings.data),
            )
        return np.array(features), np.array(labels)

    # What was held out

    def _report(self, learned: Learned) -> dict[str, Any]:
        em: list[float] = []
        fs: list[float] = []
        right: list[float] = []
        wrong: list[float] = []
        for example in self.held:
            for passage in [example.passage, *self.all_rivals(example.question, example.passage)]:
                pair = QuestionPassage(example.question, self.texts[passage], 0)
                (answer,) = learned.read(
                    [pair], [(0, match) for match in self._matches(example.question, passage)]
                )
                if answer.score is None:
                    continue
                is_right = passage == example.passage and bool(example.answers)
                (right if is_right else wrong).append(answer.score)
                if is_right:
                    em.append(exact_match(answer.answer, example.answers))
                    fs.append(f1(answer.answer, example.answers))
        report: dict[str, Any] = {
            "questions": len(self.trained),
            "passages": self.rarity.passages,
            "held_out_questions": len(self.held),
            "epochs": self.settings.epochs,
            "learned_from": [example.question for example in self.trained],
        }
        if right and wrong:
            report |= {
                "em": float(np.mean(em)),
                "f1": float(np.mean(fs)),
                "auroc": auroc([*right, *wrong], [1] * len(right) + [0] * len(wrong)).value,
                "bins": _bins(right, wrong),
            }
        return report

    def _matches(self, question: str, passage: int) -> list[Match]:
        from draftverify_retrieval.matching import match

        text = self.texts[passage]
        self._hold([question, text])
        question_text = self._states[question][0]
        matches = (match(question_text, window, 0, self.rarity) for window in self._states[text])
        return [match_or_none for match_or_none in matches if match_or_none is not None]

    def _hold(self, texts: Sequence[str]) -> None:
        """Have these texts' states at hand, in place of those that were read first."""
        from draftverify_retrieval.matching import read_texts

        missing = [text for text in dict.fromkeys(texts) if text not in self._states]
        self._states.update(zip(missing, read_texts(self.encoder, missing), strict=True))
        for text in list(self._states)[: max(0, len(self._states) - _HELD_STATES)]:
            if text not in texts:
                del self._states[text]


def _bins(right: Sequence[float], wrong: Sequence[float]) -> list[dict[str, float]]:
    """Equally many passages a bin: the probability that the scores mean, and the share that has an answer."""
    scores = np.array([*right, *wrong])
    labels = np.array([1.0] * len(right) + [0.0] * len(wrong))
    order = np.argsort(scores, kind="stable")
    return [
        {
            "passages": len(part),
            "probability": float((1 / (1 + np.exp(-scores[part]))).mean()),
            "answered": float(labels[part].mean()),
        }
        for part in np.array_split(order, _BINS)
        if len(part)
    ]


def _rivals(
    texts: Sequence[str], rarity: Any, rows: Sequence[int], count: int
) -> Callable[[str, int], list[int]]:
    """A function of a question and its own passage: the other passages that BM25 ranks highest for it."""
    import bm25s

    terms = [rarity.words.terms(texts[row]) for row in rows]
    index = bm25s.BM25()
    if not any(terms):
        return lambda question, place: []
    index.index(terms, show_progress=False)

    def rivals(question: str, place: int) -> list[int]:
        terms_asked = [term for term in rarity.words.terms(question) if term in index.vocab_dict]
        if not terms_asked:
            return []
        scores = index.get_scores(terms_asked)
        order = np.argsort(-scores, kind="stable")[: count + 1]
        return [rows[i] for i in order if rows[i] != place and scores[i] > 0][:count]

    return rivals


def _read(path: Path, half: Half) -> tuple[list[str], list[_PassageQuestion]]:
    """The passages, each once, and the questions about them."""
    if path.suffix != ".jsonl":
        return _read_squad(path, half)
    if half != "all":
        raise ConfigError("only files in SQuAD's layout have halves", where=str(path), path="half")
    places: dict[str, int] = {}
    examples = [_read_line(row, places, where) for where, row in read_rows(path, halves=True)]
    if not examples:
        raise ConfigError("the file holds no questions", where=str(path))
    return list(places), examples


def _read_line(entry: Mapping[str, Any], places: dict[str, int], where: str) -> _PassageQuestion:
    try:
        question, passage, listed = entry["question"], entry["passage"], entry["answers"]
        if not isinstance(listed, list):
            raise TypeError("answers is no list")
        answers = [{"text": answer} if isinstance(answer, str) else answer for answer in listed]
        texts = tuple(str(answer["text"]) for answer in answers)
        spans = []
        for answer in answers:
            start = answer.get("start", passage.find(answer["text"]))
            if start < 0 or not passage.startswith(answer["text"], start):
                raise ValueError(
                    f"the answer {answer['text']!r:.60} does not stand in the passage at {start}"
                )
            spans.append((start, start + len(answer["text"])))
        if not question.strip() or not passage.strip():
            raise ValueError("question and passage must not be empty")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"a line has question, passage and answers (texts, or mappings with text and start): "
            f"{type(error).__name__}: {error}",
            where=where,
        ) from error
    return _PassageQuestion(question, places.setdefault(passage, len(places)), texts, tuple(spans))


def _read_squad(path: Path, half: Half) -> tuple[list[str], list[_PassageQuestion]]:
    texts: list[str] = []
    places: dict[str, int] = {}
    for passage in paragraphs(path, half):
        places[passage["id"]] = len(texts)
        texts.append(passage["text"])
    examples = []
    for passage, task in questions(path, half):
        spans = tuple((start, end) for start, end in task.expected.get("spans", ()))
        place = places[passage["id"]]
        examples.append(
            _PassageQuestion(task.input["question"], place, tuple(task.expected["answers"]), spans)
        )
    return texts, examples
