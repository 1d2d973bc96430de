"""What crosses between the driver's process and its workers: bytes that hold JSON, and never a pickle.

A reply says what came of a unit, that its worker was lost, or that the run must end.
"""

from __future__ import annotations

import warnings
from threading import Lock

import msgspec

from draftverify import errors
from draftverify.bench.config.specs import Experiment
from draftverify.bench.executors.frames import LostUnit, failing
from draftverify.bench.records.encoding import check, decode, encode
from draftverify.bench.records.entries import Texts
from draftverify.bench.runner.bench import Bench, Done, Unit, failed_unit
from draftverify.bench.runner.build import Builder
from draftverify.errors import ContractError, DraftVerifyError, SelfVerificationWarning
from draftverify.values import Failure, Round


class WorkerReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a unit; one of the three is given.

    Args:
        done: the unit's end.
        error: what ends the run.
        lost: how its worker ended.
    """

    done: Done | None = None
    error: Failure | None = None
    lost: LostUnit | None = None


class Sent(msgspec.Struct, frozen=True):
    """A round, sent while its task runs."""

    pipeline: str
    task: str
    attempt: int
    round: Round
    texts: Texts | None


def answered(unit: Unit, done: Done) -> bytes:
    """The reply that a unit ended; as failed where what came of it cannot be recorded."""
    try:
        return encode(WorkerReply(done=done), f"task {unit.task.id!r}").encode()
    except ContractError as error:
        return encode(WorkerReply(done=failed_unit(unit, Failure.of(error))), "a reply").encode()


def raise_from(failure: Failure) -> None:
    """Raise what a worker says ends the run, under its own name.

    Raises:
        DraftVerifyError: always.
    """
    kind = getattr(errors, failure.error, None)
    if isinstance(kind, type) and issubclass(kind, DraftVerifyError):
        raise kind(failure.message)
    raise DraftVerifyError(str(failure))


def sent_round(pipeline: str, task: str, attempt: int, round: Round, texts: Texts | None) -> bytes:
    """A round as a message.

    Raises:
        ContractError: it holds what cannot be recorded.
    """
    where = f"pipeline {pipeline!r}, task {task!r}, round {round.index}"
    check(round, where)
    return encode(Sent(pipeline, task, attempt, round, texts), where).encode()


def build(spec: bytes) -> Bench:
    """The pipelines of an experiment, in a worker.

    Raises:
        DraftVerifyError: a part cannot be built here.
    """
    with warnings.catch_warnings():  # the driver's process has said it
        warnings.simplefilter("ignore", SelfVerificationWarning)
        return Builder().bench(Experiment.from_json(spec))


_benches: dict[bytes, Bench] = {}
_building = Lock()


def perform_remote(spec: bytes, unit: bytes) -> bytes:
    """Perform a unit in a worker of anybody's executor, in the process that calls this.

    Args:
        spec: the experiment as text, the same for every unit; the bench is built from it once.
        unit: a Unit as JSON.

    Returns:
        A WorkerReply as JSON.
    """
    try:
        with _building:  # a worker may have several threads
            bench = _benches.get(spec)
            if bench is None:
                _benches.clear()
                bench = _benches[spec] = build(spec)
        work = decode(unit, Unit, "a unit of work")
        return answered(work, bench.perform(work))
    except BaseException as error:
        return failing(error)


def read_reply(data: bytes) -> WorkerReply:
    """A worker's reply.

    Raises:
        StoreError: it is none.
    """
    return decode(data, WorkerReply, "a worker's reply")


def read_sent(data: bytes) -> Sent:
    """A worker's round.

    Raises:
        StoreError: it is none.
    """
    return decode(data, Sent, "a worker's round")
