"""Where a figure comes from: the command, the commit, the machine and the versions, written beside it."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
"""Variables that hide instructions: of oneDNN (its older name too) and of torch's own kernels."""
VECTORS = ("avx", "amx", "fma", "asimd", "sve", "i8mm", "bf16")
BEGAN = time.monotonic()
PACKAGES = ("draftverify", "numpy", "torch", "transformers", "msgspec", "SQLAlchemy")


def provenance(module: str) -> dict[str, Any]:
    """Command, commit (with "+changes" when the tree is not clean), seconds, machine and versions."""
    return {
        "command": shlex.join(["python", "-m", module, *sys.argv[1:]]),
        "commit": _commit(),
        "seconds": round(time.monotonic() - BEGAN, 1),
        "machine": {
            "processor": _processor(),
            "vector_instructions": vector_instructions(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "system": platform.platform(),
            "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        },
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }


def write(path: Path, module: str, figures: dict[str, Any]) -> None:
    """Write `figures` with their provenance as JSON; what stood there stays whole until then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps({"provenance": provenance(module), **figures}, indent=1) + "\n")
    beside.replace(path)


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "HEAD") + (
        "+changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def vector_instructions() -> dict[str, Any]:
    """What the processor has, what torch takes of it, and the variables that hold torch or oneDNN to less.

    The same weights are read at other speeds with other instructions: bfloat16 products want AVX-512, and a figure of
    one processor says little of another's.
    """
    limits = {name: os.environ[name] for name in LIMITS if name in os.environ}
    found: dict[str, Any] = {"processor": _flags(), "limits": limits}
    if "torch" in sys.modules:  # only where it computed something
        found["torch"] = sys.modules["torch"].backends.cpu.get_cpu_capability()
    return found


def _flags() -> list[str]:
    """The processor's vector extensions, as the kernel names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    flags = next(
        (line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), []
    )
    return sorted(flag for flag in flags if flag.startswith(VECTORS))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
