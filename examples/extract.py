"""Extraction with a form that is checked: examples/extract.yaml in Python.

A small model reads twenty short texts; a JSON schema checks the form of what it says of them, and a refused answer goes
back to it with the places that were wrong. Accepted is the schema's word, on the form alone; solved is what
the right answers say, which no part of the pipeline sees.

    pip install -c constraints.txt '.[llm]'  # in a clone of the repository
    python examples/extract.py
"""

import json
from pathlib import Path

from draftverify import Pipeline, Task, feedback
from draftverify.bench import Evaluation, evaluate
from draftverify.checks.metrics import EqualAnswer
from draftverify.checks.verifiers import JsonSchema
from draftverify.rules import First
from draftverify_llm import LlamaCpp, Sample

HERE = Path(__file__).parent
ASKED = (
    "{text}\n\nWhat are the name, the date and the amount in this text? Answer with a JSON object that has the keys "
    '"name", "date" and "amount" (a number), and no other.'
)

model = LlamaCpp("smollm2-135m-instruct", threads=1)
sample = Sample(
    model, max_tokens=60, system="You extract data from texts.", template=ASKED, take=r"(?s)\{.*?\}"
)
schema = JsonSchema(HERE / "extract.schema.json")
pipeline = Pipeline(sample, schema, First(), policy=feedback(2), block=4, settings={"temperature": 0.4})


def main(limit: int | None = None) -> Evaluation:
    """Run the tasks, the first `limit` of them, and print what was accepted and what is right."""
    lines = [json.loads(line) for line in (HERE / "extract.jsonl").read_text().splitlines()][:limit]
    tasks = [
        Task(id=x["id"], input={"text": x["text"]}, group=x["kind"], expected={"answer": x["answer"]})
        for x in lines
    ]
    found = evaluate({"extract": pipeline}, tasks, metrics={"right": EqualAnswer()})
    print(found)
    return found


if __name__ == "__main__":
    main()
