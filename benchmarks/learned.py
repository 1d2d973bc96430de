"""Learned drafters: what a layer and heads trained on the target's own answers accept on prompts that they never saw.

    DRAFTVERIFY_DATA=DIR python -m benchmarks.learned prompts      # what to learn from, what to measure on, the overlap
    draftverify run runs/learned/answers.yaml -o runs/learned/answers
    draftverify fit part drafter runs/learned/answers -o runs/learned/eagle
    draftverify fit part drafter runs/learned/answers -o runs/learned/medusa --set kind=medusa --set steps=4
    DRAFTVERIFY_DATA=DIR python -m benchmarks.learned measure --out benchmarks/results/learned.json

The target is SmolLM2-135M-Instruct in packed bfloat16. Both learn from its own greedy answers to GSM8K's training
questions, PandaLM's instructions, SQuAD's questions without their passages, passages to sum up, and user turns that it
wrote itself (drawn at temperature 1 after the opening of its chat template). All are measured on Spec-Bench. A prompt
of the first kind that shares more than a fifth of a measured prompt's runs of five words, or the other way round, is
left out: MT-Bench's prompts stand in several collections, and what was trained on them says nothing of others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.provenance import write
from benchmarks.tokens import interval
from draftverify import Memory, Pipeline, Task, TaskRecord
from draftverify.bench.records import load_run
from draftverify.rules import Speculative, Tree
from draftverify.stats import items_per_pass
from draftverify.stats.block import Measured
from draftverify_llm import LocalModel
from draftverify_tokens import Eagle, FirstOf, Medusa, NoDraft, PromptLookup, Stop, Suffix, Target, generate

WEIGHTS = "smollm2-135m-instruct"
RUN = 5
"""Words of a run that two prompts may share."""
GOAL = 1.25
"""Times plain decoding, which a learned drafter should reach."""
NODES = (2, 4, 8)
"""Of Medusa's trees."""
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


class Way(NamedTuple):
    """A drafter, its block size, the earlier answers that it may look up, and the rule."""

    drafter: Any
    block: Callable[[], Any]
    memory: Memory = Memory()
    rule: Any = Speculative()


def ways(model: LocalModel, work: Path, records: Sequence[TaskRecord]) -> dict[str, Way]:
    """What drafts, by its name, each with a block size made anew: a controller begins with nothing."""
    memory = Memory(1, tuple(records))
    eagle, medusa = Eagle(model, work / "eagle"), Medusa(model, work / "medusa")
    return {
        "plain": Way(NoDraft(), lambda: 0),
        "lookup": Way(PromptLookup(), lambda: 8),
        "suffix": Way(Suffix(), lambda: 8),
        "table": Way(Suffix(), lambda: 8, memory),
        "eagle": Way(eagle, lambda: 3),
        "eagle, measured": Way(eagle, lambda: Measured(at_most=8)),
        "lookup, else eagle": Way(FirstOf([PromptLookup(at_least=2), eagle]), lambda: Measured(at_most=8)),
        "lookup, else medusa": Way(FirstOf([PromptLookup(at_least=2), medusa]), lambda: 4, rule=Tree()),
        # its threshold was chosen on the seventh to tenth prompt of each kind
        "suffix, else medusa": Way(FirstOf([Suffix(threshold=0.3), medusa]), lambda: 4, rule=Tree()),
        **{f"medusa, {nodes} nodes": Way(medusa, lambda nodes=nodes: nodes, rule=Tree()) for nodes in NODES},
    }


def measure(data: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Every way on every prompt, repeat by repeat, the order of the ways turning round from prompt to prompt; intervals
    are over prompts."""
    model = LocalModel(WEIGHTS, dtype="bfloat16", packed="bfloat16")
    tasks = [
        Task(id=task["id"], input={"prompt": task["prompt"]}, group=task["group"])
        for kind in options.kinds
        for task in [row for row in measured(data) if row["group"] == kind][: options.prompts]
    ]
    with load_run(options.work / "answers") as run:
        every = ways(model, options.work, run.records("plain"))
    # Only a drafter's own target keeps states.
    targets = {name: Target(model) for name in every}
    runs: dict[str, list[dict[str, tuple[float, TaskRecord]]]] = {name: [] for name in every}
    for repeat in range(options.repeats + 1):
        pipelines = {
            name: Pipeline(
                way.drafter, targets[name], way.rule, block=way.block(), done=Stop(options.tokens),
                settings={"temperature": 0},
            )
            for name, way in every.items()
        }  # fmt: skip
        for own in runs.values():
            own.append({})
        for place, task in enumerate(tasks if repeat else tasks[:1]):  # the first time nothing is warm
            for name in list(every)[:: 1 if (repeat + place) % 2 else -1]:
                start = perf_counter()
                record = pipelines[name].record(task, memory=every[name].memory)
                runs[name][-1][task.id] = perf_counter() - start, record
        print(f"repeat {repeat} of {options.repeats}", flush=True)
    kinds = {}
    for kind in options.kinds:
        ids = [task.id for task in tasks if task.group == kind]
        kinds[kind] = {name: row(runs, name, ids) for name in every}
    training = {
        kind: json.loads((options.work / kind / "report.json").read_text(encoding="utf-8"))["figures"]
        for kind in ("eagle", "medusa")
    }
    overlap = json.loads((options.work / "overlap.json").read_text(encoding="utf-8"))
    return {
        "repeats": options.repeats, "prompts": options.prompts, "tokens": options.tokens, "kinds": kinds,
        "training": training, "overlap": overlap, "goal": GOAL,
    }  # fmt: skip


def row(
    runs: dict[str, list[dict[str, tuple[float, TaskRecord]]]], name: str, ids: list[str]
) -> dict[str, Any]:
    """The figures of a way on some prompts; of its drafts what they would have to bring to reach the goal."""
    own, plain = runs[name][1:], runs["plain"][1:]

    def total(either: list[dict[str, tuple[float, TaskRecord]]], ids: list[str]) -> tuple[float, int, int]:
        """Seconds, tokens and rounds."""
        pairs = [run[id] for run in either for id in ids]
        tokens = sum(len(record.outcome.value) for _, record in pairs)
        return sum(seconds for seconds, _ in pairs), tokens, sum(len(record.rounds) for _, record in pairs)

    def speed(either: list[dict[str, tuple[float, TaskRecord]]], ids: list[str]) -> float:
        seconds, tokens, _ = total(either, ids)
        return tokens / seconds

    passes = items_per_pass([own[0][id][1] for id in ids])
    figures = {
        "tokens_per_second": speed(own, ids),
        "tokens_per_pass": [passes.value, passes.low, passes.high],
        "same_as_plain": sum(own[0][id][1].outcome.value == plain[0][id][1].outcome.value for id in ids),
    }
    if name != "plain":
        (seconds, _, rounds), (base, _, steps) = total(own, ids), total(plain, ids)
        figures["against plain"] = interval([speed(own, [id]) / speed(plain, [id]) for id in ids])
        figures["round_over_step"] = cost = (seconds / rounds) / (base / steps)
        figures["tokens_per_pass_for_the_goal"] = GOAL * cost
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=["prompts", "measure"])
    parser.add_argument("--work", type=Path, default=Path("runs/learned"))
    parser.add_argument(
        "--counts", type=json.loads, default={"gsm8k": 450, "squad": 200, "passages": 60, "own": 700}
    )
    parser.add_argument("--kinds", nargs="+", default=list(CATEGORIES))
    parser.add_argument("--prompts", type=int, default=10, help="of each kind")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/learned.json"))
    options = parser.parse_args()
    data = Path(os.environ["DRAFTVERIFY_DATA"])
    if options.step == "prompts":
        write_prompts(data, options.work, options.counts)
        return
    figures = measure(data, options)
    write(options.out, "benchmarks.learned", figures)
    for kind, table in figures["kinds"].items():
        for name, found in table.items():
            ratio = found.get("against plain", {}).get("ratio", 1.0)
            print(f"{kind:12} {name:20} {found['tokens_per_pass'][0]:5.2f} a pass  {ratio:5.2f} x plain")


if __name__ == "__main__":
    main()
