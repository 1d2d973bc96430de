"""Learned drafters: what a decoder layer trained on the target's own answers accepts on prompts that it never saw.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.learned prompts      # what to learn from, what to measure on, the overlap
    draftverify run runs/learned/answers.yaml -o runs/learned/answers
    draftverify fit part drafter runs/learned/answers -o runs/learned/eagle
    DRAFTVERIFY_DATA=DIR python -m benchmarks.learned measure --out benchmarks/results/learned.json

The target is SmolLM2-135M-Instruct in packed bfloat16. It learns from its own greedy answers to GSM8K's training
questions, PandaLM's instructions, SQuAD's questions without their passages, passages to sum up, and user turns that it
wrote itself (drawn at temperature 1 after the opening of its chat template). It is measured on Spec-Bench. A prompt of
the first kind that shares more than a fifth of a measured prompt's runs of five words, or the other way round, is left
out: MT-Bench's prompts stand in several collections, and what was trained on them says nothing of others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from draftverify_llm import LocalModel
from draftverify_tokens import generate

WEIGHTS = "smollm2-135m-instruct"
RUN = 5
"""Words of a run that two prompts may share."""
MOST = 0.2
"""The largest share of its runs that a prompt may have in common with a measured one."""
CATEGORIES = {
    "chat": ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"),
    "questions": ("qa",),
    "maths": ("math_reasoning",),
    "summaries": ("summarization",),
    "translation": ("translation",),
    "rag": ("rag",),
}
ANSWERS = """\
name: answers
tasks: {use: jsonl, path: prompts.jsonl, fields: {id: id, prompt: prompt, group: group}}
models:
  target: {use: llm.local, weights: smollm2-135m-instruct, dtype: bfloat16, packed: bfloat16}
settings: {temperature: 0}
executor: {use: batch, size: 48}
pipelines:
  plain:
    generator: {use: tokens.none}
    verifier: {use: tokens.target, model: target}
    rule: {use: speculative}
    done: {use: tokens.stop, max_tokens: 96}
"""


def measured(data: Path) -> list[dict[str, Any]]:
    """Spec-Bench's first turns, by the kinds of `CATEGORIES`."""
    kinds = {category: kind for kind, categories in CATEGORIES.items() for category in categories}
    rows = map(json.loads, (data / "spec_bench" / "question.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        {"id": f"spec-{row['question_id']}", "prompt": row["turns"][0], "group": kinds[row["category"]]}
        for row in rows
    ]


def candidates(data: Path, counts: dict[str, int]) -> Iterator[dict[str, Any]]:
    """What may be learned from: of each kind as many prompts as `counts` says."""
    for place, line in enumerate(
        (data / "gsm8k" / "train.jsonl").read_text().splitlines()[: counts["gsm8k"]]
    ):
        yield {"id": f"gsm8k-{place}", "prompt": json.loads(line)["question"], "group": "gsm8k"}
    rows = json.loads((data / "pandalm" / "testset-v1.json").read_text(encoding="utf-8"))
    texts = dict.fromkeys("\n\n".join(filter(None, (row["instruction"], row["input"]))) for row in rows)
    for place, text in enumerate(texts):
        yield {"id": f"pandalm-{place}", "prompt": text, "group": "pandalm"}
    articles = json.loads((data / "xquad_en" / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    random.Random(7).shuffle(paragraphs)
    for place, paragraph in enumerate(paragraphs[: counts["squad"]]):
        yield {"id": f"squad-{place}", "prompt": paragraph["qas"][0]["question"], "group": "squad"}
    for place, paragraph in enumerate(paragraphs[: counts["passages"]]):
        text = f"Summarize the following text:\n{paragraph['context']}"
        yield {"id": f"passage-{place}", "prompt": text, "group": "passages"}
    for place, text in enumerate(own_prompts(counts["own"])):
        yield {"id": f"own-{place}", "prompt": text, "group": "own"}


def own_prompts(count: int) -> list[str]:
    """User turns as the model itself writes them (Xu et al., "Magpie", arXiv:2406.08464)."""
    model = LocalModel(WEIGHTS, dtype="bfloat16", packed="bfloat16")
    model.open()
    opening = model.tokenizer.decode(model.encode_prompt({"prompt": "|turn|"})).partition("|turn|")[0]
    ids = model.tokenizer.encode(opening, add_special_tokens=False)
    drawn = generate(
        model,
        [ids] * count,
        drafter="none",
        max_new_tokens=72,
        temperature=1,
        top_p=0.95,
        seed=5,
        batch_size=16,
    )
    return [answer.text.strip() for answer in drawn if answer.finish_reason == "stop"]


def runs_of(text: str) -> set[tuple[str, ...]]:
    """Its runs of five words; a shorter text is one run."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i : i + RUN]) for i in range(max(1, len(words) - RUN + 1))}


def shared(text: str, others: Sequence[set[tuple[str, ...]]]) -> float:
    """The largest share of runs that a text has in common with another, of the shorter one's."""
    runs = runs_of(text)
    return max(len(runs & other) / min(len(runs), len(other)) for other in others)


def write_prompts(data: Path, work: Path, counts: dict[str, int]) -> None:
    """The prompts to learn from, a config that answers them, and what was left out."""
    apart = [runs_of(task["prompt"]) for task in measured(data)]
    kept, overlaps = [], []
    for task in candidates(data, counts):
        overlap = shared(task["prompt"], apart)
        if overlap <= MOST:
            kept.append(task)
        overlaps.append((overlap, task["id"]))
    random.Random(7).shuffle(kept)
    work.mkdir(parents=True, exist_ok=True)
    (work / "answers.yaml").write_text(ANSWERS, encoding="utf-8")
    (work / "prompts.jsonl").write_text("".join(json.dumps(task) + "\n" for task in kept), encoding="utf-8")
    left_out = {task: overlap for overlap, task in overlaps if overlap > MOST}
    figures = {
        "kept": len(kept),
        "left_out": left_out,
        "largest_share": max(overlap for overlap, _ in overlaps if overlap <= MOST),
        "groups": {
            group: sum(task["group"] == group for task in kept) for group in {t["group"] for t in kept}
        },
    }
    (work / "overlap.json").write_text(json.dumps(figures), encoding="utf-8")
    print(figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=["prompts", "measure"])
    parser.add_argument("--work", type=Path, default=Path("runs/learned"))
    parser.add_argument(
        "--counts", type=json.loads, default={"gsm8k": 450, "squad": 200, "passages": 60, "own": 700}
    )
    options = parser.parse_args()
    data = Path(os.environ["DRAFTVERIFY_DATA"])
    write_prompts(data, options.work, options.counts)


if __name__ == "__main__":
    main()
