"""Two small models audited live as judges: SmolLM2-135M by its first token's probabilities, Qwen2.5-Coder by replies.

    nice -n 5 python -m benchmarks.judges_live --out benchmarks/results/judges_live.json

Both compare the shortest of LLMBar's MT-Bench pairs (question and answers together) under the shipped prompts: SmolLM2
as `llm.local` under every probe, Qwen2.5-Coder-1.5B as `llm.llama_cpp`, which reads some 30 tokens a second on two
shared cores, on fewer pairs and under the probes in FEW.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.judges import DATA, llmbar, plain
from benchmarks.provenance import write
from draftverify.kit.audit import PROBES, AnswerComparison, ProbeName, audit_judge
from draftverify_llm import Judge, LlamaCpp, LocalModel, PairwiseJudge

EVERY: tuple[ProbeName, ...] = tuple(
    name for name in PROBES if name != "family"
)  # the pairs do not name systems
FEW: tuple[ProbeName, ...] = ("agreement", "order", "length", "win_rate", "names")
GRADED: tuple[ProbeName, ...] = ("agreement", "length", "win_rate", "wording", "empty")


SMOLLM2, QWEN = "smollm2-135m-instruct", "qwen2.5-coder-1.5b-instruct"
JUDGES: list[tuple[str, Any, int, tuple[ProbeName, ...]]] = [
    (f"{SMOLLM2}, pairwise", PairwiseJudge(LocalModel(SMOLLM2, dtype="bfloat16")), 40, EVERY),
    (f"{SMOLLM2}, yes or no", Judge(LocalModel(SMOLLM2, dtype="bfloat16")), 40, GRADED),
    (f"{QWEN}, pairwise", PairwiseJudge(LlamaCpp(QWEN, parallel=1, threads=1), max_tokens=8), 20, FEW),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--models", nargs="*", choices=[SMOLLM2, QWEN], default=[SMOLLM2, QWEN])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _, comparisons = llmbar(options.data, "GPT-4", Path(folder))
    comparisons.sort(key=lambda each: (len(each.question) + len(each.first) + len(each.second), each.id))
    figures: dict[str, Any] = {}
    for name, judge, pairs, probes in JUDGES:
        if name.split(",")[0] in options.models:
            figures[name] = audited(judge, comparisons[:pairs], probes)
            write(options.out, "benchmarks.judges_live", {"repeats": 1, "judges": figures})


def audited(judge: Any, comparisons: list[AnswerComparison], probes: tuple[ProbeName, ...]) -> dict[str, Any]:
    judge.open()
    try:
        found = audit_judge(judge, comparisons, probes=probes, watcher=lambda asked: print(asked, flush=True))
    finally:
        judge.close()
    longest = max(len(each.question) + len(each.first) + len(each.second) for each in comparisons)
    return {"longest_characters": longest, **plain(found)}


if __name__ == "__main__":
    main()
