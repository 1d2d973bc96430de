"""What run.json says: which run a directory holds, and what it was started and gone on with."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from draftverify.errors import ConfigError, StoreError
from draftverify.secret import Secret

FREE = ("currency", "executor", "durable", "metrics", "store", "tags", "telemetry")
"""The keys of a config that change no record: a run goes on though they are others."""

TAG = re.compile(r"\w[\w.:=/+-]{0,99}")
"""What a tag looks like."""

_PACKAGES = ("draftverify", "msgspec", "numpy", "scipy", "sqlalchemy", "torch", "transformers", "xllamacpp")
_CARDS = Path("/proc/driver/nvidia/gpus")


def store_url(written: str) -> str:
    """A store's URL as a config writes it, with what the environment holds for each ${NAME} in it.

    Raises:
        ConfigError: it holds nothing of that name.
    """

    def held(match: re.Match[str]) -> str:
        name = match[1]
        if name not in os.environ:
            raise ConfigError(
                f"the environment variable {name} is not set; export {name}=… first", path="store"
            )
        return Secret(os.environ[name])

    return re.sub(r"\$\{(\w+)\}", held, written)


class RunStart(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a run with other versions, parts or another command than the one before.

    Args:
        at: when, an ISO time in UTC.
        command: the command line.
        versions: as of `versions`.
        parts, metrics, marks: as of RunDirectory.
        accepted: how the parts differ from those of the start before, where the run went on with them.
    """

    at: str = ""
    command: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    parts: dict[str, dict[str, str]] = {}
    metrics: dict[str, dict[str, str]] = {}
    marks: dict[str, tuple[str, ...]] = {}
    accepted: tuple[str, ...] | UnsetType = UNSET


class About(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Args:
        run: its id.
        name: of the experiment.
        config_hash: of the whole resolved config.
        tags: words to find it by.
        store: where its records are.
        served: whether its tasks are a server's, as they come.
        starts: in order; there is one at least.
        begun: whether its store has been made.
    """

    run: str
    name: str
    config_hash: str
    tags: tuple[str, ...] = ()
    store: Literal["records.db", "postgresql"] = "records.db"
    served: bool = False
    starts: Annotated[tuple[RunStart, ...], msgspec.Meta(min_length=1)]
    begun: bool = False


def find_about(path: Path) -> About | None:
    """What the run.json of a directory says; None where there is none."""
    file = path / "run.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=About) if file.exists() else None
    except (OSError, UnicodeError, msgspec.MsgspecError) as error:
        raise StoreError(
            f"{file}: not what this draftverify writes ({error}); restore a copy, or choose another --out"
        ) from error


def read_about(path: Path) -> About:
    """What a run directory's run.json says.

    Raises:
        StoreError: it is no run directory, or run.json cannot be read.
    """
    about = find_about(path)
    if about is None:
        raise StoreError(f"{path}: {_no_run(path)}")
    return about


def _no_run(path: Path) -> str:
    """What stands where a run directory was looked for, and the runs that are near."""
    if path.is_file():
        return "not a run directory but a file; `draftverify run` says where it wrote the run"
    folder = path if path.is_dir() else path.parent
    near = sorted(str(file.parent) for file in folder.glob("*/run.json"))[:8] if folder.is_dir() else []
    hint = f"; there {'is' if len(near) == 1 else 'are'} {', '.join(near)}" if near else ""
    return (
        "not a run directory (there is no run.json in it)" if path.is_dir() else "there is no such directory"
    ) + hint


def versions() -> dict[str, str]:
    """The versions of Python, platform, processor, accelerator and the installed packages that can change a result or a
    time."""
    identities = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count() or 1),
    }
    if accelerator := _accelerator():
        identities["accelerator"] = accelerator
    return identities | _installed()


@cache
def _installed() -> dict[str, str]:
    """The versions of the packages; what is installed while a process runs is none of those that it uses."""
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _accelerator() -> str:
    """The models of NVIDIA's cards as the driver names them, each once; asking torch would begin to use them."""
    models = set()
    for file in _CARDS.glob("*/information"):
        with suppress(OSError):
            for line in file.read_text().splitlines():
                if line.startswith("Model:"):
                    models.add(line.partition(":")[2].strip())
    return ", ".join(sorted(models))
