"""A run's records as training data, in the formats that TRL documents.

rows.py     the rows of each format, and what makes none
judged.py   who says what is right
texts.py    prompts and answers as text, or as turns
"""

from draftverify.lab.training.judged import RunMetric
from draftverify.lab.training.rows import TRAINING, UNSURE, UNTOLD, Training, training_rows, write_lines
from draftverify.lab.training.texts import prompt_text

__all__ = [
    "TRAINING",
    "UNSURE",
    "UNTOLD",
    "RunMetric",
    "Training",
    "prompt_text",
    "training_rows",
    "write_lines",
]
