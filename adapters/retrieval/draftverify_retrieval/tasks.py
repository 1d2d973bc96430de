"""Tasks from files in SQuAD's layout, and the paragraphs that their questions were written about, as a corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from draftverify import ConfigError, Task
from draftverify_llm import check_least
from draftverify_retrieval.passages import Passage

Half: TypeAlias = Literal["all", "even", "odd"]
"""Which paragraphs, counted through the file from 0: both halves have some of every article."""


class _Paragraph(NamedTuple):
    id: str
    text: str
    title: str
    questions: list[Any]
    where: str


@dataclass(eq=False)
class Squad:
    """Questions of a file in the layout of SQuAD, 1.1 or 2.0 (XQuAD, MLQA and many others have it too).

    A task's input is `question`, its group the article's title. Its expected is

    - `answers`: the texts, each once; [] where the question has no answer (`is_impossible`, or no answer is given);
    - `document`: the id of its paragraph, as `paragraphs` has it. Not where the question has no answer;
    - `spans`: where the answers stand in the paragraph, [start, end] in characters; those that the file's
      `answer_start` names rightly. Metrics of rankings take a piece of a paragraph for relevant where it holds one.

    With `corpus` a question has no answer either when its paragraph is not in that half: then the corpus must be that
    half, `paragraphs(path, "even")`. A second run on the other half asks each question's twin: those that had an answer
    have none, and those that had none have one.

    Args:
        path: the JSON file.
        half: the paragraphs whose questions are asked.
        corpus: the paragraphs that can be found.
        unanswerable: whether questions that the file says have no answer are asked too.
        limit: the first so many questions; all when absent.
    """

    path: Path
    half: Half = "all"
    corpus: Half = "all"
    unanswerable: bool = True
    limit: int | None = None

    def load(self) -> list[Task]:
        """The tasks, in the file's order.

        Raises:
            ConfigError: the file cannot be read, has no questions of this kind, or something in it is not as it must
                be; the message names the place, as data[0].paragraphs[2].qas[1].
        """
        check_least(0, limit=self.limit)
        tasks: dict[str, Task] = {}
        for number, paragraph in enumerate(_read(Path(self.path))):
            if not _is_in(number, self.half):
                continue
            for place, entry in enumerate(paragraph.questions):
                where = f"{paragraph.where}.qas[{place}]"
                task = _task(entry, paragraph, _is_in(number, self.corpus), where)
                if task.id in tasks:
                    raise ConfigError(f"the id {task.id!r} stands twice", where=where)
                if self.unanswerable or not entry.get("is_impossible"):
                    tasks[task.id] = task
        if not tasks:
            raise ConfigError("the file holds no such questions", where=str(self.path))
        return list(tasks.values())[: self.limit]


def paragraphs(path: Path, half: Half = "all") -> Iterator[Passage]:
    """The paragraphs of a file in SQuAD's layout, with `id` and `text`: the lines of a corpus.

    The id is "<title>/<number>", counted from 0 among the paragraphs of that title.

    Raises:
        ConfigError: as of `Squad.load`.
    """
    for number, paragraph in enumerate(_read(Path(path))):
        if _is_in(number, half):
            yield Passage(id=paragraph.id, text=paragraph.text)


def _is_in(number: int, half: Half) -> bool:
    return half == "all" or (number % 2 == 0) == (half == "even")


def _read(path: Path) -> Iterator[_Paragraph]:
    try:
        content = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"the file cannot be read: {error.strerror or error}", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"this is no JSON: {error}", where=str(path)) from error
    counts: dict[str, int] = {}
    for i, article in enumerate(_list(content, "data", str(path))):
        where = f"{path}: data[{i}]"
        title = _text(article, "title", where, "")
        for j, entry in enumerate(_list(article, "paragraphs", where)):
            place = f"{where}.paragraphs[{j}]"
            number = counts[title] = counts.get(title, -1) + 1
            questions = _list(entry, "qas", place)
            yield _Paragraph(f"{title}/{number}", _text(entry, "context", place), title, questions, place)


def _task(entry: Any, paragraph: _Paragraph, findable: bool, where: str) -> Task:
    id, question = _text(entry, "id", where), _text(entry, "question", where)
    answers = [] if entry.get("is_impossible") or not findable else _list(entry, "answers", where)
    texts, spans = dict[str, None](), list[list[int]]()
    for k, answer in enumerate(answers):
        text = _text(answer, "text", f"{where}.answers[{k}]")
        texts[text] = None
        start = answer.get("answer_start")
        if isinstance(start, int) and start >= 0 and paragraph.text.startswith(text, start):
            spans.append([start, start + len(text)])
    expected: dict[str, Any] = {"answers": list(texts)}
    if texts:
        expected["document"] = paragraph.id
    if spans:
        expected["spans"] = [list(span) for span in dict.fromkeys(map(tuple, spans))]
    return Task(id=id, input={"question": question}, group=paragraph.title, expected=expected)


def _list(entry: Any, key: str, where: str) -> list[Any]:
    entries = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(entries, list):
        raise ConfigError(f"a list {key!r} is needed here, as in SQuAD's files", where=where)
    return entries


def _text(entry: Any, key: str, where: str, default: str | None = None) -> str:
    text = entry.get(key, default) if isinstance(entry, dict) else None
    if not isinstance(text, str) or (text == "" and default is None):
        raise ConfigError(f"a text {key!r} is needed here, as in SQuAD's files", where=where)
    return text
