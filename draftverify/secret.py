"""Secrets: text that a config names by environment variable and that no message, record, dump or log shows.

Every secret that this process has made is known here, so that one function can take all of them out of a text. It is
called where messages are made: by `Failure.of` and the boundary, by every DraftVerifyError, by the command line and by
the loggers.
"""

from __future__ import annotations

import base64
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from html.entities import codepoint2name
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_plus

SHORTEST = 6
"""Characters; a shorter one ("none", "EMPTY") is a placeholder, and would be taken out of ordinary words."""

_URL_SECRETS = re.compile(
    # A password may hold an @ of its own: the last one of the authority is the one before the host.
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,30})://(?P<user>[^/?#\s'\"<>]+)@"
    r"|[?&#](?:[\w.-]*(?:key|token|secret|passw(?:or)?d|pwd|sig)[\w.-]*|(?:[\w.-]*[_.-])?auth(?:orization)?)"
    r"=(?P<value>[^&#\s'\"]+)",
    re.IGNORECASE,
)


class _Known(NamedTuple):
    """What finds a secret.

    Args:
        written: as Python, JSON, URLs and HTML write it.
        least: so many characters it has at least where it is encoded.
        as_base64, as_hex: the patterns of its encodings. Each by what stands in every text that it fits, of the second
            in small letters: to look for that first takes a hundredth of the time.
    """

    written: re.Pattern[str]
    least: int
    as_base64: tuple[tuple[str, re.Pattern[str]], ...]
    as_hex: tuple[tuple[str, re.Pattern[str]], ...]


_known: dict[str, _Known] = {}
"""By each secret; the longest first, since one may be a part of another."""
_learning = threading.Lock()
_quiet: set[str] = set()
"""Names of loggers."""


class Secret(str):
    """A password or an API key. It is text like any other, except that its repr hides it, and so does every message.

    A component annotates a parameter with it; a config then gives that parameter as `${NAME}`, the name of an
    environment variable, and never as the secret itself.

    Examples:
        >>> key = Secret("sk-123")
        >>> key
        Secret('…')
        >>> f"Bearer {key}"
        'Bearer sk-123'
        >>> redact("401: no such key: sk-123")
        '401: no such key: ***'
    """

    __slots__ = ()

    def __new__(cls, value: str = "") -> Secret:
        _remember(value)
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return "Secret('…')"


def note_urls(text: str) -> None:
    """Hold what the addresses in a text carry for secrets: what stands before an @, and `key=` or the like.

    So is the header that a client makes of name and password: a server's error may show it.
    """
    for match in _URL_SECRETS.finditer(text):
        for read in (str, unquote, unquote_plus):
            _remember(read(match["value"] or ""))
        for user in (match["user"] or "", unquote(match["user"] or "")):
            name, colon, password = user.partition(":")
            # Alone it is a token on the web, and a name elsewhere (postgresql://postgres@localhost).
            if colon or (match["scheme"] and match["scheme"].lower().startswith(("http", "ws"))):
                _remember(user)
                _remember(password)
                _remember(
                    base64.b64encode(f"{name}:{password}".encode(errors="replace")).decode().rstrip("=")
                )


def hide_urls(text: str) -> str:
    """The text without what the addresses in it carry for secrets, however short, and without all other secrets.

    Examples:
        >>> hide_urls("--store=postgresql://me:pw@host/runs")
        '--store=postgresql://me:***@host/runs'
    """

    def hidden(match: re.Match[str]) -> str:
        if match["value"]:
            return match[0].removesuffix(match["value"]) + "***"
        name, colon, _ = match["user"].partition(":")
        web = match["scheme"].lower().startswith(("http", "ws"))
        user = f"{name}:***" if colon else "***" if web else name
        return f"{match['scheme']}://{user}@"

    note_urls(text)
    return redact(_URL_SECRETS.sub(hidden, text))


def redact(text: str) -> str:
    """The text with *** for every secret, in whichever spelling a message, a URL, JSON or HTML gives it; as base64 too,
    alone or within a longer one (a header made of name and key), and as hexadecimal digits.

    Examples:
        >>> key = Secret("sk-456")
        >>> redact(f"{key.encode().hex()}, Basic {base64.b64encode(b'me:' + key.encode()).decode()}")
        '***, Basic bWU6***'
    """
    length = len(text)
    lowered = ""
    for written, least, as_base64, as_hex in _known.values():
        if written.search(text):
            text = written.sub("***", text)
        if length >= least:
            for part, pattern in as_base64:
                if part in text:
                    text = pattern.sub("***", text)
            lowered = lowered or text.lower()
            for part, pattern in as_hex:
                if part in lowered:
                    text = pattern.sub("***", text)
    return text


def redacted(value: Any) -> Any:
    """Plain data without secrets in any of its texts; numbers stay, whatever digits they have."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(key)): redacted(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [*map(redacted, value)]
    return value


def quiet(logger: logging.Logger) -> logging.Logger:
    """The logger, which from now on writes no secret, tracebacks included; nor do those below it."""
    if not _quiet:
        # A filter of the logger would see no record of those below it.
        logging.setLogRecordFactory(partial(_record, logging.getLogRecordFactory()))
    _quiet.add(logger.name)
    return logger


def _record(
    make: Callable[..., logging.LogRecord], name: str, *args: Any, **kwargs: Any
) -> logging.LogRecord:
    record = make(name, *args, **kwargs)
    if any(name == prefix or name.startswith(f"{prefix}.") for prefix in _quiet):
        _take_out(record)
    return record


def _take_out(record: logging.LogRecord) -> None:
    try:
        message = record.getMessage()
    except Exception:  # the arguments do not fit the message, which is no reason to stop who logs it
        message = f"{record.msg} {record.args}"
    record.msg, record.args = redact(message), None
    if record.exc_info:
        record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        record.exc_info = None


def _remember(value: str) -> None:
    global _known
    value = value.strip()
    # ${NAME} is where a secret is read from.
    if len(value) < SHORTEST or value in _known or re.fullmatch(r"\$\{\w+\}", value):
        return
    written = re.compile(_spellings(value[0], first=True) + "".join(map(_spellings, value[1:])))
    octets = {value.encode(errors="replace")}
    with suppress(UnicodeEncodeError):
        octets.add(value.encode("latin-1"))  # as some headers have it
    forms = _Known(
        written,
        len(value),
        tuple([pair for encoded in octets for pair in _as_base64(encoded)]),
        tuple([pair for encoded in octets for pair in _as_hex(encoded)]),
    )
    with _learning:  # of two threads neither may put back what was known before the other's
        known = {**_known, value: forms}
        _known = dict(sorted(known.items(), key=lambda item: len(item[0]), reverse=True))


def _as_base64(octets: bytes) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Bytes as base64, alone and among others: how many stand before decides between three spellings."""
    for offset in range(3):
        text = base64.b64encode(bytes(offset) + octets).decode()
        # Only the characters that these bytes decide alone: the first and the last may say something of others too.
        decided = text[-(-offset * 8 // 6) : (offset + len(octets)) * 8 // 6]
        pattern = "".join(_base64(char, first=not at) for at, char in enumerate(decided))
        tail = "[A-Za-z0-9+/_-]?" if (offset + len(octets)) % 3 else ""
        part = max(re.findall(r"[A-Za-z0-9]+", decided), key=len, default="")
        yield part, re.compile(rf"{pattern}{tail}(?:=|%3[Dd]){{0,2}}")


def _as_hex(octets: bytes) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Bytes as hexadecimal digits, in one piece or with what Python and URLs write between them."""
    between = r"(?::|%|\\+x)?"
    pattern = re.compile(r"(?:\\+x)?" + between.join(f"(?i:{octet:02x})" for octet in octets))
    first, second, third = [f"{octet:02x}" for octet in octets[:3]]
    for part in (first + second + third, f"{first}:{second}", f"%{second}", rf"\x{second}"):
        yield part, pattern


def _base64(char: str, first: bool) -> str:
    """A pattern of the ways in which a character of base64 stands in a text."""
    url_safe = {"+": "-", "/": "_"}.get(char)
    return char if url_safe is None else f"(?:{_spellings(char, first)}|{url_safe})"


_CONTROLS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def _spellings(char: str, first: bool = False) -> str:
    """A pattern of the ways in which Python, JSON, URLs and HTML write a character, also one within the other.

    Args:
        char: one character.
        first: nothing of the secret stands before it. A backslash there escapes it only where it must.
    """
    if char.isascii() and char.isalnum():
        return char
    point, octets = ord(char), char.encode(errors="surrogatepass")
    units = char.encode("utf-16-be", errors="surrogatepass").hex()
    names = [f"#0*{point}", f"#[xX]0*(?i:{point:x})"]
    names += [codepoint2name[point]] if point in codepoint2name else ["apos"] if char == "'" else []
    as_html = rf"&(?:amp;){{0,2}}(?:{'|'.join(names)});"
    escape = "" if first and char != '"' else r"(?:\\(?:\\\\)?)?"
    ways = [
        rf"\\{{1,4}}|{as_html}" if char == "\\" else f"{escape}(?:{as_html}|{re.escape(char)})",
        "".join(rf"\\{{1,4}}u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4)),
        rf"\\{{1,4}}U(?i:{point:08x})",
        "".join(rf"\\{{1,4}}x(?i:{octet:02x})" for octet in octets),
        rf"\\{{1,4}}x(?i:{point:02x})",
        "".join(f"%(?:25){{0,2}}(?i:{octet:02x})" for octet in octets),
    ]
    if char in _CONTROLS:
        ways.append(rf"\\{{1,4}}{_CONTROLS[char]}")
    if char == " ":
        ways.append(r"\+")
    return f"(?:{'|'.join(ways)})"
