"""Secrets: text that a config names by environment variable and that no message, record, dump or log shows.

Every secret that this process has made is known here, so that one function can take all of them out of a text. It is
called where messages are made: by `Failure.of` and the boundary, by every DraftVerifyError, by the command line and by
the loggers.
"""

from __future__ import annotations

import json
import logging
import re
from urllib.parse import quote, quote_plus, unquote

__all__ = ["Secret", "note_urls", "quiet", "redact"]

SHORTEST = 6
"""Characters; a shorter one ("none", "EMPTY") is a placeholder, and would be taken out of ordinary words."""

_URL_SECRETS = re.compile(
    r"https?://(?P<user>[^/?#\s@'\"]+)@"
    r"|[?&][\w.-]*(?:key|token|secret|password|sig)[\w.-]*=(?P<value>[^&#\s'\"]+)",
    re.IGNORECASE,
)
_known: tuple[str, ...] = ()


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
    """Hold what the http addresses in a text carry for secrets: what stands before an @, and `key=` or the like."""
    for found in _URL_SECRETS.finditer(text):
        user = found["user"] or ""
        for part in (user, user.partition(":")[2], found["value"] or ""):
            _remember(unquote(part))


def redact(text: str) -> str:
    """The text with *** for every secret, in whichever spelling a message, a URL or JSON gives it."""
    for spelling in _known:
        if spelling in text:
            text = text.replace(spelling, "***")
    return text


def quiet(logger: logging.Logger) -> logging.Logger:
    """The logger, which from now on writes no secret, tracebacks included."""
    logger.addFilter(_take_out)
    return logger


def _take_out(record: logging.LogRecord) -> bool:
    record.msg, record.args = redact(record.getMessage()), None
    if record.exc_info:
        record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        record.exc_info = None
    return True


def _remember(value: str) -> None:
    global _known
    value = value.strip()
    if len(value) < SHORTEST:
        return
    written = (value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe=""), quote_plus(value))
    # The longest first: one secret may be a part of another.
    _known = tuple(sorted({*_known, *written}, key=len, reverse=True))
