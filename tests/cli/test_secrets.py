"""A secret that a part lets slip stands nowhere afterwards: not in the terminal, nor in a run directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftverify.cli.main import main
from draftverify.secret import Secret, note_urls, redact

KEY, LOCAL = "sk-Very/Secret+Key=1", "pw-in-the-address"

PARTS = '''
from draftverify import Check, Proposal, Task, Verification
from draftverify.secret import Secret
from urllib.parse import quote

class Tasks:
    def load(self):
        return [Task(id=how) for how in ("header", "address", "quoted", "chained", "feedback", "own", "divergence")]

class Slips:
    """Says its key in every way that a part says anything."""
    shape = "alternatives"

    def __init__(self, key: Secret, url: str) -> None:
        self.key = key
        self.url = url

    def propose(self, context, n):
        how = context.task.id
        if how == "header":
            raise ValueError(f"Illegal header value {b'Bearer ' + self.key.encode()!r}")
        if how == "address":
            raise OSError(f"cannot reach {self.url}")
        if how == "quoted":
            raise OSError(f"GET /v1?key={quote(self.key.strip(), safe='')}")
        if how == "chained":
            try:
                raise ValueError(self.key)
            except ValueError as error:
                raise RuntimeError("it failed") from error
        return Proposal.alternatives((how,))

    def verify(self, context, proposal):
        if context.task.id == "own":
            return self.key.encode()
        said = f"401 for {self.key}"
        return Verification(checks=tuple(Check("reject", reason=said, feedback=said) for _ in proposal.items))

    def describe(self, values):
        return [str(value) for value in values]
'''

CONFIG = """
name: slips
parts: [slips.py]
tasks: {{use: slips.Tasks}}
pipelines:
  one:
    generator: {{use: slips.Slips, key: "${{SLIPPED}}", url: "https://me:{local}@example.test/v1"}}
    verifier: {{use: slips.Slips, key: "${{SLIPPED}}", url: ""}}
    rule: {{use: first}}
    on_rejection: [{{do: feedback}}, {{do: escalate}}]
durable: round
executor: {executor}
"""


@pytest.mark.parametrize("executor", ["{use: serial}", "{use: process, workers: 1}"])
def test_no_secret_is_left_anywhere(
    tmp_path: Path, executor: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key with a stray newline and one inside an address: searched for in all that a run writes and prints."""
    monkeypatch.setenv("SLIPPED", KEY + "\n")
    (tmp_path / "slips.py").write_text(PARTS)
    (tmp_path / "slips.yaml").write_text(CONFIG.format(local=LOCAL, executor=executor))
    out = tmp_path / "run"
    main(["run", str(tmp_path / "slips.yaml"), "--out", str(out)])
    main(["run", str(tmp_path / "slips.yaml"), "--out", str(out), "--set", "seed=5"])  # says what differs
    main(["show", str(out)])
    for task in ("header", "feedback", "own"):
        main(["show", str(out), "--trace", task])
    written = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert {"records.db", "report.html", "summary.json", "config.json"} <= set(written)
    captured = capfd.readouterr()
    written["terminal"] = (captured.out + captured.err).encode()
    assert b"Illegal header value b'Bearer ***" in written["records.db"]
    assert b"401 for ***" in written["records.db"]
    for name, content in written.items():
        for secret in (KEY, LOCAL, "sk-Very", "Secret%2BKey", "Secret+Key"):
            assert secret.encode() not in content, (name, secret)


def test_a_short_placeholder_is_left_alone() -> None:
    """Words that stand for no key at all are words of ordinary texts."""
    Secret("none")
    assert redact("none of the tests") == "none of the tests"


def test_what_an_address_carries_is_known_as_a_secret() -> None:
    """Before the @, and behind key=, token= and their like; the rest of the address is not."""
    note_urls(
        "see https://user:pass-word-1@host/v1?model=large-model&api_key=query-key-1&x=1 and http://host/plain"
    )
    said = redact("user pass-word-1 large-model query-key-1 host plain")
    assert said == "user *** large-model *** host plain"
