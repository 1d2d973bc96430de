"""Questions answered from passages: what a checked block brings, and whether a fitted threshold keeps its promise.

    python -m benchmarks.retrieval_qa --data xquad.en.json --distractors question.jsonl [--limit 0]
        [--text-model NAME] [--out benchmarks/results/retrieval_qa.json]

`--data` is a file in SQuAD's layout, `--distractors` Spec-Bench's, whose news and encyclopedia texts are added to the
second corpus. Asked are the questions of the odd paragraphs; passages are sentences, found by BM25
and read by the lexical reader.

Ways to read (`answers`): the first passage alone; the first 5 or 20, always, in one batch; and one passage after the
other until one of them is useful with probability .9, 5 at most. Each takes the best answer that it read. Given are
exact match and F1, passages read, and passages read per right answer (F1 of ½, or a right one stands in it);
differences to always reading 5 are paired by question.

Saying that there is no answer (`promises`): each question is asked twice, with its paragraph in the corpus and without;
in the second case there is none. A block of 5 is read, a second one where nothing passed, and then the pipeline
abstains. The threshold is fitted on one half of the questions for a precision of .8, .9 and .95 and tried on the other,
both ways round. Given are the precision of the passages that were accepted (a right answer stands in them) with its
interval by article, and how often each kind of question was answered.

A probability is that of a passage to be useful: that a right answer stands in it. It is fitted on other questions.

With `--text-model` (a catalogue name) 150 of the questions, drawn with a fixed seed, are answered by that model instead
(`text_model`): from memory alone, from the first passage, and from the best of a block of 5 that it reads itself.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.provenance import write
from draftverify import Context, Outcome, Pipeline, Proposal, Task
from draftverify.bench import evaluate
from draftverify.bench.artifact import write_artifact
from draftverify.lab import Calibrated, Promise, fit_verifier
from draftverify.lab.certificate import last_kept
from draftverify.rules import All, Best, EnoughEvidence
from draftverify.stats.intervals import rate, t_quantile
from draftverify.traits import GeneratorTraits
from draftverify_llm import LocalModel
from draftverify_retrieval import (
    F1,
    Bm25,
    Corpus,
    ExactMatch,
    HoldsAnswer,
    LexicalReader,
    Squad,
    TextReader,
)
from draftverify_retrieval.tasks import paragraphs

ALWAYS = {"first passage": 1, "first 5": 5, "first 20": 20}
ENOUGH = 0.9


class Asked:
    """Drafts from the corpus that the task names."""

    traits = GeneratorTraits(shape="alternatives", reads=frozenset())

    def __init__(self, of: dict[str, Bm25]) -> None:
        self.of = of

    def propose(self, context: Context, n: int) -> Proposal:
        return self.of[context.task.input["corpus"]].propose(context, n)

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        return [self.propose(*call) for call in zip(contexts, ns, strict=True)]


def useful(task: Task, outcome: Outcome) -> bool:
    """Whether a right answer stands in the passage."""
    return (
        HoldsAnswer()(task, replace(outcome, value=outcome.value["text"])) == 1
        if task.expected["answers"]
        else False
    )


def right(task: Task, outcome: Outcome) -> bool:
    """Whether the answer is right: half of the words, or a right one stands in it."""
    return F1()(task, outcome) >= 0.5 or HoldsAnswer()(task, outcome) == 1


def main() -> None:
    options = read_options()
    with tempfile.TemporaryDirectory() as folder:
        corpora = write_corpora(options, Path(folder))
        found = {name: Bm25(Corpus(path, split="sentence")) for name, path in corpora.items()}
        reader = LexicalReader(found["sentences"].corpus)
        tasks = Squad(options.data, half="odd").load()[: options.limit or None]
        if options.text_model:
            tasks = random.Random(14).sample(tasks, min(150, len(tasks)))
            made = by_text_model(options.text_model, Asked(found), [on(task, "sentences") for task in tasks])
            write(options.out, "benchmarks.retrieval_qa", {"text_model": options.text_model, **made})
            print(json.dumps(made, indent=1))
            return
        figures = {
            "passages": {name: len(each.corpus) for name, each in found.items()},
            "questions": len(tasks),
            "answers": {
                name: ways(Asked(found), reader, [on(task, name) for task in tasks], Path(folder))
                for name in ("sentences", "with distractors")
            },
            "promises": promises(Asked(found), reader, tasks),
        }
    write(options.out, "benchmarks.retrieval_qa", figures)
    print(json.dumps(figures, indent=1)[:6000])


def on(task: Task, corpus: str, *, answerable: bool = True) -> Task:
    """The question, asked of this corpus."""
    expected = task.expected if answerable else {"answers": []}
    return replace(task, id=f"{task.id}/{corpus}", input={**task.input, "corpus": corpus}, expected=expected)


def write_corpora(options: argparse.Namespace, folder: Path) -> dict[str, Path]:
    whole, even = list(paragraphs(options.data)), list(paragraphs(options.data, "even"))
    with open(options.distractors, encoding="utf-8") as lines:
        others = [json.loads(line) for line in lines]
    texts = [
        {"id": f"other/{each['question_id']}", "text": each["turns"][0]}
        for each in others
        if each["category"] in ("summarization", "rag")
    ]
    made = {}
    for name, rows in (("sentences", whole), ("with distractors", [*whole, *texts]), ("without", even)):
        made[name] = folder / f"{name.replace(' ', '-')}.jsonl"
        made[name].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return made


def ways(drafted: Asked, reader: Any, tasks: list[Task], folder: Path) -> dict[str, Any]:
    """Every way to read, on the same questions. The probabilities are fitted on the other half of the paragraphs."""
    halves = [tasks[: len(tasks) // 2], tasks[len(tasks) // 2 :]]
    records: dict[str, list[Any]] = {}
    for fold, (own, other) in enumerate((halves, halves[::-1])):
        path = folder / f"ways-{fold}.json"
        judged = evaluate({"fit": Pipeline(drafted, reader, All(), block=5)}, other, size=16).records["fit"]
        fitted = fit_verifier(reader, judged, {task.id: task for task in other}, useful)
        write_artifact(path, fitted.artifact)
        anything = Calibrated(reader, path, accept=0.0)
        pipelines = {
            name: Pipeline(drafted, anything, Best(), block=n, name=name) for name, n in ALWAYS.items()
        }
        pipelines["until enough"] = Pipeline(
            drafted, anything, Best(), block=1, done=EnoughEvidence(ENOUGH, at_most=5), name="until enough"
        )
        for name, each in evaluate(pipelines, own, size=16).records.items():
            records.setdefault(name, []).extend(zip(own, each, strict=True))
    made = {}
    for name, pairs in records.items():
        exact = np.array([ExactMatch()(task, record.outcome) for task, record in pairs])
        f1 = np.array([F1()(task, record.outcome) for task, record in pairs])
        hits = np.array([right(task, record.outcome) for task, record in pairs])
        read = np.array([record.outcome.tally.trials for _, record in pairs])
        made[name] = {"exact": exact, "f1": f1, "right": hits, "read": read}
    five = made["first 5"]
    return {
        name: {
            "exact_match": float(each["exact"].mean()),
            "f1": float(each["f1"].mean()),
            "right": float(each["right"].mean()),
            "passages_read": float(each["read"].mean()),
            "passages_per_right_answer": float(each["read"].sum() / max(each["right"].sum(), 1)),
            "f1_beside_first_5": interval(each["f1"] - five["f1"]),
        }
        for name, each in made.items()
    }


def promises(drafted: Asked, reader: Any, tasks: list[Task]) -> dict[str, Any]:
    """Thresholds certified on one half of the questions' paragraphs and tried on the other, both ways round."""
    twins = [[on(task, "sentences"), on(task, "without", answerable=False)] for task in tasks]
    half = len(twins) // 2  # the file goes article by article, so halves share no paragraph but one
    folds = [[each for pair in part for each in pair] for part in (twins[:half], twins[half:])]
    made: dict[str, Any] = {}
    answers = [evaluate({"best": best(drafted, reader)}, fold, size=16).records["best"] for fold in folds]
    for precision in (0.8, 0.9, 0.95):
        pairs: list[tuple[Task, Any]] = []
        fitted = []
        for own, other, others in zip(folds, folds[::-1], answers[::-1], strict=True):
            scored = [
                (record.outcome.score, bool(useful(task, record.outcome)))
                for task, record in zip(other, others, strict=True)
                if record.outcome.score is not None
            ]
            thresholds = sorted({score for score, _ in scored}, reverse=True)
            passing = ([right for score, right in scored if score >= least] for least in thresholds)
            trials = ((len(hits), hits.count(False)) for hits in passing)
            place, _ = last_kept(trials, Promise("precision", precision, 0.1), tasks=len(other))
            fitted.append({"threshold": None if place is None else thresholds[place]})
            if place is None:
                continue
            records = evaluate({"best": best(drafted, reader, thresholds[place])}, own, size=16).records[
                "best"
            ]
            pairs += zip(own, records, strict=True)
        accepted = [(task, record) for task, record in pairs if record.outcome.status == "accepted"]
        hits = [float(useful(task, record.outcome)) for task, record in accepted]
        answerable = [(task, record) for task, record in pairs if task.expected["answers"]]
        made[str(precision)] = {
            "fitted": fitted,
            "precision": estimate(accepted, hits),
            "answered": {
                "answerable": share(answerable),
                "unanswerable": share([pair for pair in pairs if not pair[0].expected["answers"]]),
            },
            "asked": len(pairs),
        }
    return made


def best(drafted: Asked, reader: Any, threshold: float | None = None) -> Pipeline:
    """The best of five passages, from a score on."""
    return Pipeline(drafted, reader, Best(threshold, abstain_after=1), block=5, name="best")


def by_text_model(name: str, drafted: Asked, tasks: list[Task]) -> dict[str, Any]:
    """Closed book, the first passage, and the best of five passages, each answered by the same model."""
    model = LocalModel(name, dtype="float32")
    # Whatever it thinks of a passage it answers, and the answer of the passage that it thinks best is taken.
    reader = TextReader(model, threshold=-math.inf)
    prompt = "Answer the question in as few words as possible.\n\nQuestion: {}\nAnswer:"
    memory = []
    for task in tasks:
        (answer,) = model.complete(prompt.format(task.input["question"]), max_tokens=24, temperature=0)
        memory.append(Outcome(status="accepted", value=answer.text))
    pipelines = {
        "first passage": Pipeline(drafted, reader, Best(), block=1, name="first passage"),
        "verified block": Pipeline(drafted, reader, Best(), block=5, name="verified block"),
    }
    records = evaluate(pipelines, tasks, size=4).records
    outcomes = {"closed book": memory} | {
        way: [record.outcome for record in own] for way, own in records.items()
    }
    scores = {
        way: {
            "exact_match": np.array([ExactMatch()(*pair) for pair in zip(tasks, own, strict=True)]),
            "f1": np.array([F1()(*pair) for pair in zip(tasks, own, strict=True)]),
            "holds": np.array([HoldsAnswer()(*pair) for pair in zip(tasks, own, strict=True)]),
        }
        for way, own in outcomes.items()
    }
    return {
        "questions": len(tasks),
        "ways": {way: {name: interval(found) for name, found in own.items()} for way, own in scores.items()},
        "verified block beside the first passage": interval(
            scores["verified block"]["f1"] - scores["first passage"]["f1"]
        ),
    }


def share(pairs: Sequence[tuple[Task, Any]]) -> dict[str, Any]:
    return estimate(pairs, [float(record.outcome.status == "accepted") for _, record in pairs])


def estimate(pairs: Sequence[tuple[Task, Any]], hits: Sequence[float]) -> dict[str, Any]:
    """The share of hits and its interval, clustered by article."""
    counts: dict[str, list[float]] = {}
    for (task, _), hit in zip(pairs, hits, strict=True):
        own = counts.setdefault(task.group, [0.0, 0.0])
        own[0] += hit
        own[1] += 1.0
    found = rate([each[0] for each in counts.values()], [each[1] for each in counts.values()])
    return {"value": found.value, "low": found.low, "high": found.high, "of": found.trials}


def interval(differences: Any) -> list[float]:
    """Mean and 95 % interval (Student's t)."""
    n = len(differences)
    reach = t_quantile(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n)
    return [float(differences.mean()), float(differences.mean() - reach), float(differences.mean() + reach)]


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--distractors", type=Path, required=True)
    parser.add_argument("--text-model")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/retrieval_qa.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
