"""What a sandboxed process may read: the system's programs and libraries, this interpreter, and packages by name.

Installed packages are hidden unless they were named: some carry the very answers that a candidate is tested for.
"""

from __future__ import annotations

import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from importlib import metadata, util
from pathlib import Path

from draftverify import ConfigError, ResourceError

SYSTEM = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime",
)  # fmt: skip


WIDELY_USED = frozenset(
    """PIL atcoder bs4 cv2 dateutil django flask gensim geopandas gmpy2 jax joblib keras librosa lxml matplotlib
    more_itertools networkx nltk numba numpy openpyxl pandas plotly polars psutil pydantic pytest pytz regex
    requests scipy seaborn shapely skimage sklearn sortedcontainers spacy sqlalchemy statsmodels sympy
    tensorflow textblob torch torchvision tqdm transformers wordcloud xgboost yaml""".split()  # noqa: SIM905
)
"""Modules of packages that programs rightly expect: to miss one is the machine's fault, and not a program's."""


@dataclass(frozen=True)
class Grants:
    """Paths for the two mechanisms that restrict reading.

    Args:
        shown: what a root directory of its own shows.
        hidden: directories in it that are emptied, but for shown paths inside.
        granted: the same without the hidden ones, for Landlock, which cannot take back what it gave.
        listed: directories of which the names inside may be read, not the files: Python lists where it imports from.
        packages: the directories from which Python imports the named packages.
        absent: modules that are installed and hidden, or widely used and not installed.
    """

    shown: tuple[str, ...]
    hidden: tuple[str, ...]
    granted: tuple[str, ...]
    listed: tuple[str, ...]
    packages: tuple[str, ...]
    absent: tuple[str, ...]


def grants(packages: Sequence[str] = (), readable: Sequence[Path] = ()) -> Grants:
    """What may be read.

    Args:
        packages: installed distributions, or modules, with what they depend on.
        readable: further files and directories.

    Raises:
        ResourceError: a package is not installed.
        ConfigError: a path is not there.
    """
    for path in readable:
        if not Path(path).exists():
            raise ConfigError(f"{path} is to be readable in the sandbox, and is not there", path="readable")
    interpreter = [sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable))]
    if sys.prefix != sys.base_prefix:
        interpreter += [os.path.join(sys.prefix, name) for name in ("bin", "pyvenv.cfg")]
    package_files = sorted({path for name in packages for path in package_paths(name)})
    hidden = _site_directories()
    # A JDK of Debian's reads its settings there.
    visible = _once([*SYSTEM, *sorted(glob("/etc/java-*-openjdk")), *interpreter])
    for path in (*package_files, *(os.path.abspath(path) for path in readable)):
        # What is shown already with a directory above it is not shown again (a package's scripts in bin).
        parent = next(
            (directory for directory in visible if path == directory or path.startswith(directory + "/")),
            None,
        )
        if parent is None or any(
            path.startswith(source + "/") and source.startswith(parent) for source in hidden
        ):
            visible.append(path)
    granted, listed = list[str](), list[str]()
    for path in visible:
        _without(path, hidden, granted, listed)
    granted += [os.path.realpath(path) for path in granted]
    # A line of a .pth file may add another environment's directory.
    sources = {path for path in sys.path if path.endswith("-packages")}
    sources |= {*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    imported = sorted(path for path in sources if any(file.startswith(path + "/") for file in package_files))
    absent = sorted(WIDELY_USED | set(_modules_in(sources)) - sys.stdlib_module_names)
    return Grants(*map(tuple, (visible, hidden, _once(granted), listed, imported, absent)))


def _modules_in(directories: Iterable[str]) -> Iterator[str]:
    """The names by which what lies in directories is imported."""
    for directory in directories:
        for name in os.listdir(directory) if os.path.isdir(directory) else ():
            if (module := name.partition(".")[0]).isidentifier():
                yield module


def package_paths(name: str) -> set[str]:
    """Files and directories of an installed distribution and of all that it requires, or of a lone module.

    Raises:
        ResourceError: nothing of that name is installed.
    """
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return _module_paths(name)
    paths: set[str] = set()
    names, done = [name], set[str]()
    while names:
        distribution_name = names.pop()
        if (key := re.sub(r"[-_.]+", "-", distribution_name).lower()) in done:
            continue
        done.add(key)
        try:
            distribution = metadata.distribution(distribution_name)
        except metadata.PackageNotFoundError:
            continue  # an optional requirement, or one of another platform
        for file in distribution.files or ():
            place = os.path.normpath(str(distribution.locate_file(file)))
            top = str(distribution.locate_file(file.parts[0]))
            # Console scripts and headers lie outside; what lies inside is granted by its top directory.
            paths.add(os.path.normpath(top) if file.parts[0] != ".." else place)
        for requirement in distribution.requires or ():
            match = re.match(r"[A-Za-z0-9._-]+", requirement)
            if match and "extra ==" not in requirement.replace("extra==", "extra =="):
                names.append(match[0])
    return {path for path in paths if os.path.exists(path) and not path.endswith("/__pycache__")}


def _module_paths(name: str) -> set[str]:
    try:
        spec = util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise ResourceError(
            f"the sandbox is to show the package {name!r}, which is not installed; pip install it"
        )
    return {
        *(spec.submodule_search_locations or ()),
        *([spec.origin] if spec.has_location and spec.origin else ()),
    }


def _site_directories() -> list[str]:
    patterns = [
        f"{root}/lib*/python3*/{kind}"
        for root in (sys.prefix, sys.base_prefix, os.path.realpath(sys.base_prefix), "/usr", "/usr/local")
        for kind in ("site-packages", "dist-packages")
    ]
    patterns += ["/usr/lib/python3/dist-packages", "/usr/local/lib/python3/dist-packages"]
    directories = {path for pattern in patterns for path in glob(pattern)}
    return sorted(directories | set(site.getsitepackages()))


def _without(path: str, hidden: Iterable[str], granted: list[str], listed: list[str]) -> None:
    """Grant the path, or what is in it when a hidden directory is."""
    real = os.path.realpath(path)
    for secret in hidden:
        if secret in (real, path):
            return
        if secret.startswith((path + "/", real + "/")) and not os.path.islink(path):
            listed.append(path)
            for name in sorted(os.listdir(path)):
                _without(os.path.join(path, name), hidden, granted, listed)
            return
    granted.append(path)


def _once(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(path for path in paths if os.path.exists(path)))
