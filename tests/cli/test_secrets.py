"""A secret that a part lets slip stands nowhere afterwards: not in the terminal, nor in a run directory."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from draftverify.bench.cli.main import main
from draftverify.errors import ConfigError, EndpointTimeout
from draftverify.secret import Secret, note_urls, quiet, redact

KEY, LOCAL = "sk-Very/Secret+Key=1", "pw-in-the-address"

PARTS = '''
from draftverify import Check, GeneratorTraits, Proposal, Task, Verification
from draftverify.secret import Secret
from urllib.parse import quote

class Tasks:
    def load(self):
        return [Task(id=how) for how in ("header", "address", "quoted", "chained", "feedback", "own", "divergence")]

class Slips:
    """Says its key in every way that a part says anything."""
    traits = (GeneratorTraits(shape="alternatives"),)

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


SPELLER = """
import base64, json
from urllib.parse import quote

from draftverify import Check, Failure, GeneratorTraits, Proposal, Refusal, Task, Verification
from draftverify.rules import First
from draftverify.secret import Secret

WAYS = {
    "plain": lambda key: key,
    "base64": lambda key: base64.b64encode(key.encode()).decode(),
    "unpadded": lambda key: base64.b64encode(key.encode()).decode().rstrip("="),
    "urlsafe": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "basic": lambda key: "Basic " + base64.b64encode(b"me:" + key.encode()).decode(),
    "basic 1": lambda key: "Basic " + base64.b64encode(b"you1:" + key.encode()).decode(),
    "basic 2": lambda key: "Basic " + base64.b64encode(b"they:" + key.encode()).decode(),
    "hex": lambda key: key.encode().hex(),
    "HEX": lambda key: key.encode().hex().upper(),
    "quoted": lambda key: quote(key, safe=""),
    "json": lambda key: json.dumps(key),
}
PLACES = ("raised", "failure", "reason", "feedback", "caveat", "notes", "described", "refused", "note")


class Tasks:
    def load(self):
        return [Task(id=f"{place}, {way}") for place in PLACES for way in WAYS]


class Speller:
    \"\"\"Says its key in every spelling, at every place at which a part says anything.\"\"\"
    traits = (GeneratorTraits(shape="alternatives"),)

    def __init__(self, key: Secret) -> None:
        self.key = key

    def _said(self, task):
        return f"401: {WAYS[task.partition(', ')[2]](self.key)} is no key"

    def propose(self, context, n):
        said = self._said(context.task.id)
        if context.task.id.startswith("raised"):
            raise OSError(said)
        if context.task.id.startswith("failure"):
            return Failure("error", said, said, said)
        return Proposal.alternatives((context.task.id,))

    def verify(self, context, proposal):
        place, said = context.task.id.partition(", ")[0], self._said(context.task.id)
        if place == "notes":
            return Verification(checks=(Check("pass"),), notes={said: [said]})
        texts = {place: said} if place in ("reason", "feedback", "caveat") else {}
        return Verification(checks=(Check("pass" if place in ("caveat", "described") else "reject", **texts),))

    def describe(self, values):
        return [self._said(value) for value in values]


class Refusing(First):
    def decide(self, context, proposal, verification, rng):
        decision = super().decide(context, proposal, verification, rng)
        if context.task.id.startswith("refused"):
            key = Speller(Secret(__import__("os").environ["SLIPPED"]))
            return type(decision)(refused=(Refusal(0, key._said(context.task.id)),))
        return decision
"""


def test_no_spelling_of_a_secret_is_left_anywhere(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As base64, within a header, as hexadecimal digits: neither in a run directory, an export, nor the terminal."""
    monkeypatch.setenv("SLIPPED", KEY)
    (tmp_path / "speller.py").write_text(SPELLER)
    (tmp_path / "speller.yaml").write_text(
        "name: spells\nparts: [speller.py]\ntasks: {use: speller.Tasks}\npipelines:\n  one:\n"
        '    generator: {use: speller.Speller, key: "${SLIPPED}"}\n'
        '    verifier: {use: speller.Speller, key: "${SLIPPED}"}\n'
        "    rule: {use: speller.Refusing}\n"
        "    on_rejection: [{do: feedback}, {do: escalate, on: [reject]}]\ndurable: round\n"
    )
    out = tmp_path / "run"
    main(["run", str(tmp_path / "speller.yaml"), "--out", str(out), "--max-failures", "99"])
    main(["show", str(out)])
    for place in ("raised", "feedback", "described"):
        main(["show", str(out), "--trace", f"{place}, basic"])
    for form in ("csv", "jsonl"):
        for level in ([], ["--rows", "rounds"], ["--rows", "items"]):
            assert main(["export", str(out), "--to", form, *level]) == 0
    assert main(["view", str(out), "-o", str(out / "again.html")]) == 0
    captured = capfd.readouterr()
    written = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    written["terminal"] = (captured.out + captured.err).encode()
    assert b"described, basic" in written["records.db"]
    assert b"401: Basic" in written["records.db"]
    alike = base64.b64encode(KEY.encode()).decode()
    inside = [
        base64.b64encode(bytes(before) + KEY.encode()).decode().rstrip("=")[before + 1 : -1]
        for before in (1, 2)
    ]
    spelt = [KEY, alike.rstrip("="), *inside, KEY.encode().hex(), quote(KEY, safe="")]
    for name, content in written.items():
        for secret in (*spelt, alike.replace("/", "_").replace("+", "-"), KEY.encode().hex().upper()):
            assert secret[:12].encode() not in content, (name, secret)
            assert secret[-9:].encode() not in content, (name, secret)


@pytest.mark.parametrize(
    "secret",
    ["sk-Very/Secret+Key=1", "abcdef", "Ã¼ber-key-é", "\u4e2d\u6587\u5bc6\u94a5\u5bc6\u94a5", "??>>??>>"],
)
@pytest.mark.parametrize("before", [b"", b"u", b"us", b"user:", b"\xff\xff"])
def test_a_secret_is_found_within_base64(secret: str, before: bytes) -> None:
    """Wherever it stands, and however the rest is written."""
    Secret(secret)
    octets = secret.encode()
    for after in (b"", b";", b"ok", b"and more"):
        encoded = base64.b64encode(before + octets + after).decode()
        for text in (
            encoded,
            encoded.rstrip("="),
            base64.urlsafe_b64encode(before + octets + after).decode(),
            encoded.replace("/", "\\/"),
            quote(encoded, safe=""),
        ):
            left = redact(f"it is {text}, he said")
            assert "***" in left
            assert left.startswith("it is ")
            assert left.endswith(", he said")
            assert len(left) < len(text) + 16 - len(secret) // 2


@pytest.mark.parametrize("separator", ["", ":", "%", "\\x", "\\\\x"])
def test_a_secret_is_found_in_hexadecimal_digits(separator: str) -> None:
    """In one piece or in pairs, in small letters or large ones."""
    Secret(KEY)
    for case in (str.lower, str.upper):
        text = separator.join(case(f"{octet:02x}") for octet in KEY.encode())
        assert redact(f"<{text}>") == "<***>"


def test_what_is_left_of_json_with_an_encoded_secret_is_json() -> None:
    """What stands before it, a backslash or the letter that one escapes, stays."""
    Secret(KEY)
    for before in ("\n", "\\", '"', "\u00e9", "\x07"):
        for encoded in (base64.b64encode(b"me:" + KEY.encode()).decode(), KEY.encode().hex()):
            for escaped in (encoded, encoded.replace("/", "\\/")):
                written = json.dumps({"said": before + escaped + before})
                said = json.loads(redact(written))["said"]
                assert said.startswith(before)
                assert said.endswith(before)
                assert "***" in said


def test_secrets_that_are_made_at_once_are_all_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads none puts back what was known before the other's."""
    other = Thread(target=Secret, args=("made-meanwhile",))

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        other.start()
        other.join(0.05)
        return sorted(*arguments, **options)

    monkeypatch.setattr("draftverify.secret.sorted", meanwhile, raising=False)
    Secret("made-first")
    other.join()
    assert redact("made-first, made-meanwhile") == "***, ***"


def test_a_short_placeholder_is_left_alone() -> None:
    """Words that stand for no key at all are words of ordinary texts, and so are their encodings."""
    Secret("none")
    encoded = base64.b64encode(b"none").decode()
    for text in ("none of the tests", f"{encoded} or {b'none'.hex()}"):
        assert redact(text) == text


def test_the_encodings_of_a_secret_take_no_words_away() -> None:
    """Of thousands of ordinary lines none changes."""
    for secret in ("abcdef", "secret", "passwd1", "sk-Very/Secret+Key=1"):
        Secret(secret)
    lines = Path(redact.__code__.co_filename).with_name("values.py").read_text().splitlines()
    assert [redact(line) for line in lines] == [re.sub("secret|abcdef", "***", line) for line in lines]


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
