"""What a call that failed becomes: a value, an item's check, and from that a value again."""

from __future__ import annotations

import signal
import threading
from typing import Literal

from draftverify.values import Check, Failure


def raised(error: BaseException) -> Failure:
    """What a part raised as a value, whatever it is: a SystemExit of its own ends its task, and not the run.

    Raises:
        KeyboardInterrupt: the user's Ctrl-C, which comes in the main thread, and where it is listened to.
    """
    if isinstance(error, KeyboardInterrupt):
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            raise error
    return Failure.of(error)


def failed(failure: Failure) -> Check:
    """The check of an item whose checking failed: an error, or a timeout, and never a rejection."""
    if failure.kind == "timeout":
        return Check("timeout", reason="timeout", feedback=failure.message)
    return Check("error", reason=failure.error, feedback=failure.message)


def failure_of(check: Check) -> Failure:
    """What `failed` made the check of, but for the traceback."""
    kind: Literal["error", "timeout"] = "timeout" if check.verdict == "timeout" else "error"
    return Failure(kind, check.reason or kind, check.feedback)
