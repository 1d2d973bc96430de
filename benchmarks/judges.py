"""Recorded judges audited: GPT-4 and ChatGPT on MT-Bench pairs, GPT-3.5 on PandaLM's, through the one interface.

    python -m benchmarks.judges [--data ../shared/data] --out benchmarks/results/judges.json

The records are written as the JSON Lines that `llm.recorded_judge` and `{use: jsonl}` read, and audited as
`draftverify audit judge` does it. LLMBar's 200 pairs have both orders and a human majority; PandaLM's 999 have one
order and three annotators.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.provenance import write
from draftverify.bench.config.tasks import Jsonl
from draftverify.kit.audit import AnswerComparison, JudgeAudit, audit_judge, comparisons_of
from draftverify_llm import RecordedJudge

DATA = Path("../shared/data")
FAMILIES = {"GPT-4": "gpt-4", "ChatGPT": "gpt-3.5"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for judge in FAMILIES:
            figures[judge] = told(*llmbar(options.data, judge, Path(folder)))
        figures["GPT-3.5 on PandaLM"] = told(*pandalm(options.data, Path(folder)))
    write(options.out, "benchmarks.judges", {"repeats": 1, "judges": figures})
    for name, found in figures.items():
        print(name)
        for probe, values in found["probes"].items():
            print(f"  {probe}:", values)


def llmbar(data: Path, judge: str, folder: Path) -> tuple[RecordedJudge, list[AnswerComparison]]:
    """A judge's verdicts on the 200 pairs; "winner" names the answer, whichever order it was shown in."""
    lines = []
    records = json.loads((data / "llmbar_mtbench" / f"{judge}.Vanilla_NoRules.json").read_text())
    for number, each in enumerate(records):
        (result,) = each["results"]
        plain, other = (result[f"swap = {swap}"] for swap in (False, True))
        line = {
            "id": str(number),
            "question": each["input"],
            "first": each["output_1"],
            "second": each["output_2"],
        }
        line |= {"label": each["label"], "verdict": plain["winner"], "words": plain["completion"][0]}
        lines.append({**line, "swapped": {"1": "2", "2": "1"}.get(other["winner"], other["winner"])})
    path = written(folder / f"{judge}.jsonl", lines)
    fields = {name: name for name in ("question", "first", "second")}
    return RecordedJudge(path, family=FAMILIES[judge]), comparisons_of(
        Jsonl(path, fields=fields, expected={"label": "label"}, id="id").load()
    )


def pandalm(data: Path, folder: Path) -> tuple[RecordedJudge, list[AnswerComparison]]:
    """GPT-3.5's verdicts on the 999 pairs; a few answers stand there as JSON's true, and some pairs stand twice."""
    lines = []
    pairs, said = (
        json.loads((data / "pandalm" / f"{name}.json").read_text())
        for name in ("testset-v1", "gpt-3.5-testset-v1")
    )
    for each, verdict in zip(pairs, said, strict=True):
        question = "\n".join(text for text in (each["instruction"], each["input"]) if text)
        line = {"id": str(each["idx"]), "question": question}
        line |= {"first": str(each["response1"]), "second": str(each["response2"])}
        line |= {"labels": [each[f"annotator{k}"] for k in (1, 2, 3)], "systems": each["cmp_key"].split("_")}
        lines.append({**line, "verdict": verdict["gpt_result"], "words": str(verdict["gpt_reason"])})
    path = written(folder / "pandalm.jsonl", lines)
    fields = {name: name for name in ("question", "first", "second", "systems")}
    return RecordedJudge(path, family="gpt-3.5"), comparisons_of(
        Jsonl(path, fields=fields, expected={"labels": "labels"}, id="id").load()
    )


def written(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def told(judge: RecordedJudge, comparisons: list[AnswerComparison]) -> dict[str, Any]:
    """The audit as figures: value, interval and count by probe and name."""
    return plain(audit_judge(judge, comparisons))


def plain(audit: JudgeAudit) -> dict[str, Any]:
    """An audit as JSON, without what each figure's name says already."""
    probes: dict[str, Any] = {}
    for probe in audit.probes:
        found = {
            each.name: [None if x is None else round(x, 4) for x in (each.value, each.low, each.high)]
            + [each.n]
            for each in probe.figures
        }
        probes[probe.name] = found or probe.untested
    whole = msgspec.to_builtins(audit)
    kept = (
        "family",
        "comparisons",
        "questions",
        "labelled",
        "comparisons_sha256",
        "asked",
        "seconds",
    )
    return {**{name: whole[name] for name in kept}, "probes": probes}


if __name__ == "__main__":
    main()
