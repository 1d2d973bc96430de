"""`command`: real processes, what their end means, and that none of them outlives its check."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from draftverify import Check, ConfigError, Pipeline, Proposal, generator
from draftverify.checks.verifiers import Command
from draftverify.kit import Subject, make_context, parametrize_with_checks
from draftverify.rules import First


def python(script: str, *arguments: str, **how: Any) -> Command:
    """A command that runs a script."""
    return Command([sys.executable, "-I", "-S", "-c", script, *arguments], **how)


def check(part: Command, item: Any) -> Check:
    """The check of one item."""
    (found,) = part.verify(make_context("any"), Proposal.alternatives([item])).checks
    return found


ENDS = """
import sys, os
text = sys.stdin.read()
print("read", text)
print("to stderr", file=sys.stderr)
os.kill(os.getpid(), 9) if text == "signal" else sys.exit(int(text))
"""


def test_the_status_decides() -> None:
    """0 passes, others reject with what was written; a signal is the checker's own end, and no rejection."""
    part = python(ENDS)
    assert check(part, "0") == Check("pass")
    rejected = check(part, "3")
    assert (rejected.verdict, rejected.reason) == ("reject", "status")
    assert {"read 3", "to stderr"} == set(rejected.feedback.splitlines())
    killed = check(part, "signal")
    assert (killed.verdict, killed.reason) == ("error", "status")
    assert "was ended by signal 9" in killed.feedback


def test_statuses_that_do_not_reject_are_errors() -> None:
    """A checker that says 1 for a refusal and 2 for trouble of its own."""
    part = python(ENDS, rejects=[1])
    assert [check(part, word).verdict for word in ("0", "1", "2")] == ["pass", "reject", "error"]


def test_a_program_that_was_not_run_has_refused_nothing() -> None:
    """126 and 127 are what env and sh say of a program that they cannot run; named in `rejects` they reject."""
    for status, said in (("126", "could not be executed"), ("127", "was not found")):
        found = check(python(ENDS), status)
        assert (found.verdict, found.reason) == ("error", "status")
        assert said in found.feedback
        assert check(python(ENDS, rejects=[int(status)]), status).verdict == "reject"
    assert check(Command(["env", "no-such-program-here"]), "x").verdict == "error"


def test_no_shell_reads_the_item() -> None:
    """Quotes, semicolons and options of an item are data, on standard input or in a file."""
    item = "-rf /; $(echo no) 'x' \"y\" ünïcode\n"
    script = (
        "import sys; data = open(sys.argv[1], 'rb').read() if len(sys.argv) > 1 else sys.stdin.buffer.read()"
    )
    script += f"; sys.exit(data != {item.encode()!r})"
    assert check(python(script), item).verdict == "pass"
    assert check(python(script, "{file}"), item).verdict == "pass"


def test_the_file_is_of_the_kind_that_was_asked_for_and_goes_away() -> None:
    """With its suffix; and inside a longer argument too."""
    part = python("import sys; print(sys.argv[1]); sys.exit(1)", "--in={file}", suffix=".json")
    said = check(part, {"a": [1, None]}).feedback
    assert said.startswith("--in=/")
    assert said.endswith("item.json")
    assert not Path(said.removeprefix("--in=")).exists()


def test_what_is_no_text_is_given_as_json() -> None:
    """What cannot be written down at all is an error."""
    part = python("import json, sys; sys.exit(json.load(sys.stdin) != {'a': [1, None]})")
    assert check(part, {"a": [1, None]}).verdict == "pass"
    for item in (object(), float("nan"), "\ud800"):
        found = check(part, item)
        assert (found.verdict, found.reason) == ("error", "ContractError")


FORKS = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60 if sys.argv[1] == "hangs" else 0)
sys.exit(1)
"""


def alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie that nobody has collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_whole_process_group_ends_with_the_time(tmp_path: Path) -> None:
    """A timeout is no rejection, and it takes the command's children along."""
    log = tmp_path / "log"
    script = FORKS.replace("print(child.pid, flush=True)", f"open({str(log)!r}, 'w').write(str(child.pid))")
    part = Command([sys.executable, "-c", script, "hangs"], timeout=1.5)
    start = time.monotonic()
    found = check(part, "x")
    assert (found.verdict, found.reason) == ("timeout", "timeout")
    assert "did not end within 1.5 s" in found.feedback
    assert time.monotonic() - start < 20
    time.sleep(0.1)
    assert not alive(int(log.read_text()))


def test_children_that_were_left_behind_end_too() -> None:
    """The command ended by itself, and its child holds the pipe; nobody waits for that one."""
    start = time.monotonic()
    found = check(Command([sys.executable, "-c", FORKS, "ends"]), "x")
    assert found.verdict == "reject"
    assert time.monotonic() - start < 20
    time.sleep(0.1)
    assert not alive(int(found.feedback))


LEAVES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", sys.argv[1]], start_new_session=True)
print(child.pid, flush=True)
sys.exit(1)
"""


@pytest.mark.parametrize("child", ["import time; time.sleep(60)", "while True: print('x' * 1000)"])
def test_what_leaves_the_group_is_not_waited_for(child: str) -> None:
    """It survives and holds the pipe, silent or not; no thread and no descriptor is kept for it, and no time lost."""
    part = Command([sys.executable, "-I", "-S", "-c", LEAVES, child])
    first = check(part, "x")
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    start = time.monotonic()
    found = [check(part, "x") for _ in range(5)]
    took = time.monotonic() - start
    if "sleep" in child:
        for each in [first, *found]:
            assert alive(int(each.feedback))
            os.kill(int(each.feedback), signal.SIGKILL)
    assert [each.verdict for each in found] == ["reject"] * 5
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == files
    assert took < 4


def test_what_was_written_at_the_end_is_not_lost() -> None:
    """The pipe is read once more when the command has ended."""
    part = python("import os; os.write(1, b'x' * 30000 + b'the end'); os._exit(1)")
    assert all(check(part, "x").feedback.endswith("xthe end") for _ in range(20))


def test_output_without_end_fills_nothing() -> None:
    """The last of it is kept; a command that never reads, or writes more than a pipe holds, does not hang."""
    part = python("import sys\nfor i in range(300000): print('line', i)\nsys.exit(1)", timeout=60)
    found = check(part, "x" * 1_000_000)
    assert found.verdict == "reject"
    assert found.feedback.endswith("line 299999")
    assert len(found.feedback) <= 2000


def test_a_program_that_is_missing_is_told_when_it_is_opened() -> None:
    """And is an error of the items, should it go away later."""
    part = Command(["no-such-program-here"])
    with pytest.raises(
        ConfigError, match=r"verifier\.command: the program 'no-such-program-here' is not there"
    ):
        Pipeline(generator(lambda c, n: ["a"]), part, First()).open()
    assert check(part, "x").reason == "FileNotFoundError"
    for bad, where in ((Command([]), "command"), (Command([sys.executable], timeout=0), "timeout")):
        with pytest.raises(ConfigError) as caught:
            bad.open()
        assert caught.value.path == where


def test_enough_spares_processes(tmp_path: Path) -> None:
    """Once enough passed nothing more is started."""
    log = tmp_path / "log"
    part = python(f"open({str(log)!r}, 'a').write('x')")
    context = make_context("any", enough=1)
    found = part.verify(context, Proposal.alternatives(["a", "b", "c"])).checks
    assert [each.verdict for each in found] == ["pass", "unchecked", "unchecked"]
    assert log.read_text() == "x"


@parametrize_with_checks(
    [
        Subject(
            Command(["grep", "-q", "a"], rejects=[1]),
            proposals=[Proposal.alternatives(["a", "b", "ca"]), Proposal.chain(["a", "b"])],
        ),
        Subject(
            Command([os.fspath("/usr/bin/env"), "test", "-s", "{file}"]),
            proposals=[Proposal.alternatives(["a", ""])],
        ),
    ]
)
def test_conformance(component: Any, check: Any) -> None:
    """It keeps the contract, from four threads too."""
    check(component)
