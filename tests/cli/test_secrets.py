"""A secret that a part lets slip stands nowhere afterwards: not in the terminal, nor in a run directory."""

from __future__ import annotations

import html
import json
import logging
import re
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from draftverify.cli.main import main
from draftverify.errors import ConfigError, EndpointTimeout
from draftverify.secret import Secret, note_urls, quiet, redact

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


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("http://me:hunter@2verysecret@host/", ["hunter@2verysecret", "me:hunter@2verysecret"]),
        ("https://ann:open-sesame-1@host", ["YW5uOm9wZW4tc2VzYW1lLTE"]),
        ("https://lone-token-12@host/v1", ["lone-token-12"]),
        ("wss://me:socket-pass-1@host/v1", ["socket-pass-1"]),
        ("ftp://me:ftp-pass-123@host/v1", ["ftp-pass-123"]),
        ("postgresql+psycopg://me:pg%2Dpass%21-1@host/db", ["pg-pass!-1", "pg%2Dpass%21-1"]),
        ("http://host/?auth=auth-value-1", ["auth-value-1"]),
        ("http://host/?a=1&passwd=passwd-value", ["passwd-value"]),
        ("http://host/?a=1&db_pwd=some%20pwd%2Bvalue", ["some pwd+value", "some+pwd%2bvalue"]),
        ("http://host/#token=fragment-token", ["fragment-token"]),
    ],
)
def test_whatever_an_address_carries_is_found_in_it(address: str, secrets: list[str]) -> None:
    """An @ in a password, any scheme, the header that a client makes of it, and the usual names of parameters."""
    note_urls(f"see {address} and mail@example.test")
    for secret in secrets:
        assert redact(f"<{secret}>").replace("=", "") in ("<***>", "<***@>"), secret
    assert redact("mail@example.test, host") == "mail@example.test, host"


def test_the_name_of_a_user_is_no_secret() -> None:
    """postgres@ is who asks; and author= is no auth=."""
    note_urls("postgresql://postgres@localhost/db http://host/?author=Shakespeare")
    assert redact("postgres Shakespeare") == "postgres Shakespeare"


SPELT = "k/ey&\"<'\\+ é\u20ac\U0001f600=%"


@pytest.mark.parametrize(
    "spelling",
    [
        SPELT,
        repr(SPELT),
        ascii(SPELT),
        repr(SPELT.encode()),
        json.dumps(SPELT),
        json.dumps(SPELT, ensure_ascii=False),
        json.dumps(json.dumps(SPELT)),
        json.dumps(SPELT).replace("/", "\\/"),
        json.dumps(SPELT).replace("&", "\\u0026").replace("<", "\\u003C"),
        quote(SPELT),
        quote(SPELT, safe=""),
        quote_plus(SPELT),
        re.sub("%..", lambda found: found[0].lower(), quote(SPELT, safe="")),
        quote(quote(SPELT, safe="")),
        html.escape(SPELT),
        html.escape(json.dumps(SPELT)),
        html.escape(html.escape(SPELT)),
        SPELT.replace("&", "&#038;").replace("'", "&apos;"),
    ],
)
def test_a_secret_is_found_in_every_spelling(spelling: str) -> None:
    """Of Python, JSON, URLs and HTML, and of one inside another."""
    Secret(SPELT)
    said = redact(f"it is {spelling}, he said")
    assert "***" in said
    assert not set("key") & set(said.removeprefix("it is ").removesuffix(", he said")), said


def test_what_is_left_of_json_is_json() -> None:
    """A backslash that escapes a secret's first character goes with it; another one stays."""
    for secret in ('"quoted-1', "/slashed-1", "\\backed-1", "-dashed-1"):
        Secret(secret)
        for before in ("", "\\", "\\\\", "\\\\\\", '"', "\\\\\\\\\\"):
            written = json.dumps({"said": before + secret})
            assert "***" in json.loads(redact(written))["said"], written


def test_an_error_holds_no_secret_in_any_attribute() -> None:
    """Not in its repr, its message, or its arguments; what is learned later is gone from its words too."""
    error = ConfigError("there is no late-secret-1 nor early-secret-1")
    Secret("late-secret-1")
    assert "late-secret" not in f"{error!r} {error}"
    again = ConfigError("there is no late-secret-1", where="x.yaml:1")
    assert "late-secret" not in f"{again!r} {again} {again.message} {again.args}"
    assert again.message == "there is no ***"
    assert "late-secret" not in repr(EndpointTimeout("late-secret-1 timed out").args)


def test_loggers_below_a_quiet_one_are_quiet_and_bad_arguments_do_not_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A handler of the child's own sees no secret either; loggers elsewhere are left alone."""
    Secret("logged-secret-1")
    log = quiet(logging.getLogger("draftverify_test.loud"))
    below = log.getChild("below")
    seen: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = seen.append  # type: ignore[method-assign]
    below.addHandler(handler)
    below.warning("it is %s", "logged-secret-1")
    log.warning("%d", "logged-secret-1")
    below.warning("%s %s", "logged-secret-1")
    try:
        raise ValueError("logged-secret-1")
    except ValueError:
        log.exception("failed")
    assert seen[0].getMessage() == "it is ***"
    assert "logged-secret-1" not in caplog.text
    assert len(caplog.records) == 4
    logging.getLogger("draftverify_test.loudest").warning("%s", "logged-secret-1")
    assert caplog.records[-1].args == ("logged-secret-1",)
