"""The process in which LLVM reads IR: a line of JSON for each text, {text}, each answered with one, {wrong}.

Run as a script in a sandbox; it imports llvmlite and the standard library.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def wrong(llvm: Any, text: str) -> str:
    """What LLVM's parser or verifier has against a module; "" when nothing."""
    # A context of its own: a type's name in one text is nothing to another.
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        return str(error).removeprefix("LLVM IR parsing error\n").strip() or "it does not verify"
    if all(function.is_declaration for function in module.functions):
        return "it defines no function"
    return ""


def main() -> None:
    """Answer line by line."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    for line in sys.stdin:
        sys.stdout.write(json.dumps({"wrong": wrong(llvm, json.loads(line)["text"])}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
