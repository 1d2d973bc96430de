"""Questions to people: who holds one for a while, and the first answer, which stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import sqlalchemy as sa

from draftverify.bench.records import tables
from draftverify.bench.records.database import Database, persistent
from draftverify.bench.records.encoding import check, decode, encode
from draftverify.bench.records.entries import Question, now, time


class Questions(Database):
    """The questions of a run; the process that drives it asks them, and those who review answer."""

    @persistent
    def claim(self, question: Question, holder: str, seconds: float) -> bool:
        """Keep a question for one reviewer for a while, so that no other answers it meanwhile.

        Args:
            question: as it was read.
            holder: who asks for it; who holds it already may claim it anew, which makes the claim last longer.
            seconds: how long, by this machine's clock; 0 lets go of it.

        Returns:
            False when another holds it, or when it is no longer the question that waits.
        """
        until = time(datetime.now(UTC) + timedelta(seconds=seconds))
        return self._change_question(question, holder, {"holder": holder, "held_until": until})

    def answer(
        self, question: Question, kind: str, value: Any = None, note: str = "", *, holder: str = ""
    ) -> bool:
        """Write a person's answer down.

        Args:
            question: as it was read.
            kind: "accept", "edit" or "reject".
            value, note: the edited item, the reason.
            holder: who answers.

        Returns:
            False when it was answered already (the first answer stands), when another holds it, or when the run has
            gone on and it is no longer the question that waits.
        """
        check(value, f"task {question.task!r}, answer")
        answered = msgspec.structs.replace(question, state="answered", answer=kind, value=value, note=note)
        data = encode(answered, f"task {question.task!r}, answer")
        new = {"state": "answered", "data": data, "holder": holder or None, "held_until": None}
        return self._answer(question, holder, new, count())

    @persistent
    def _answer(self, question: Question, holder: str, new: Mapping[str, Any], tries: Iterator[int]) -> bool:
        retried = next(tries) > 0
        if self._change_question(question, holder, new):
            return True
        if not retried:
            return False
        # A try whose acknowledgement was lost has written it, or somebody was faster.
        columns = tables.questions.c
        query = sa.select(columns.data, columns.holder)
        query = query.where(tables.of_key(tables.questions), columns.round == question.round)
        key = tables.bound(self._key(question.pipeline, question.task, question.attempt))
        return [tuple(row) for row in self._read(query, key)] == [(new["data"], new["holder"])]

    def _change_question(self, question: Question, holder: str, new: Mapping[str, Any]) -> bool:
        """Change a question that still waits, unless another than `holder` holds it."""
        columns = tables.questions.c
        free = columns.holder.is_(None) | columns.held_until.is_(None) | (columns.held_until <= now())
        query = tables.questions.update().where(
            tables.of_key(tables.questions),
            columns.round == question.round,
            columns.state == "pending",
            free | (columns.holder == holder),
        )
        if question.asked:
            # Inner tasks of one round ask one after the other under one key.
            query = query.where(columns.asked == question.asked)
        key = tables.bound(self._key(question.pipeline, question.task, question.attempt))
        with self._transaction() as connection:
            done = connection.execute(
                query.values({name: sa.literal(value) for name, value in new.items()}), key
            )
        return bool(done.rowcount)

    def questions(
        self,
        state: str | None = None,
        *,
        task: str | None = None,
        free_for: str | None = None,
        limit: int | None = None,
    ) -> tuple[Question, ...]:
        """The questions of the run, oldest first.

        Args:
            state: only those in it.
            task: only those about it.
            free_for: only those that wait and that this reviewer may claim.
            limit: at most so many.
        """
        columns = tables.questions.c
        query = sa.select(tables.questions).where(columns.run == self._run)
        if free_for is not None:
            ended = columns.held_until.is_(None) | (columns.held_until <= now())
            query = query.where(columns.state == "pending", ended | (columns.holder == free_for))
        if state is not None:
            query = query.where(columns.state == state)
        if task is not None:
            query = query.where(columns.task == task)
        query = query.order_by(columns.asked, columns.pipeline, columns.task, columns.round).limit(limit)
        return tuple(map(self._question, self._read(query)))

    def question(self, like: Question) -> Question | None:
        """The question as it stands now; None when it is gone, or another stands in its place."""
        key = tables.bound(self._key(like.pipeline, like.task, like.attempt))
        query = sa.select(tables.questions).where(
            tables.of_key(tables.questions), tables.questions.c.round == like.round
        )
        questions = [self._question(row) for row in self._read(query, key)]
        return next((question for question in questions if like.asked in ("", question.asked)), None)

    def question_counts(self) -> dict[str, int]:
        """How many questions are "pending", "answered" and "used"; of the first, how many a reviewer has ("held")."""
        columns = tables.questions.c
        held = sa.func.sum(sa.case((columns.held_until > now(), 1), else_=0))
        query = sa.select(columns.state, sa.func.count(), held).where(columns.run == self._run)
        by_state = {
            state: (number, int(held)) for state, number, held in self._read(query.group_by(columns.state))
        }
        counts = {state: by_state.get(state, (0, 0))[0] for state in ("pending", "answered", "used")}
        return {**counts, "held": by_state.get("pending", (0, 0))[1]}

    def _question(self, row: Any) -> Question:
        question = decode(row.data, Question, f"{self._place}, question of task {row.task!r}")
        return msgspec.structs.replace(
            question,
            state=row.state,
            asked=row.asked,
            holder=row.holder or "",
            held_until=row.held_until or "",
        )
