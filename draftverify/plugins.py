"""Where parts come from: entry points of installed packages, and local files that a config opts in by name.

A part is named in one entry-point group per role (`draftverify.generators`, …); the built-in parts register the
same way as anybody's. Finding names imports nothing. A broken plugin is listed with its traceback, and is an error
only when it is used; so are two plugins of one name.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module, metadata, util
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from draftverify.errors import ConfigError, DraftVerifyError, PluginError, ResourceError, did_you_mean

Role: TypeAlias = Literal[
    "generator",
    "verifier",
    "rule",
    "model",
    "tasks",
    "stopping",
    "threshold",
    "block",
    "metric",
    "executor",
    "trainer",
    "function",
]
Factory: TypeAlias = Callable[..., Any]

CACHES = "draftverify.caches"
COMMANDS = "draftverify.commands"
MARKS = "draftverify.marks"
REPORTS = "draftverify.reports"
HOOKS = (CACHES, COMMANDS, MARKS, REPORTS)
"""Groups of entry points that are no role of a part: what `draftverify cache` shows; further commands; what reports say
of a pipeline, `marks(pipeline, audits)`; and a run's reports, `report(run)`, of which NAME is written as
report.NAME."""
LISTED = 12
"""Names that a message lists where none is near."""


class RoleInfo(NamedTuple):
    """What there is to know of a role.

    Args:
        group: of entry points.
        noun: for messages.
        method: that makes a class fit for it; "" for a model, which is whatever its users ask of it, an executor, and a
            function, which builds no part and is given to one as it is.
    """

    group: str
    noun: str
    method: str = ""


ROLES: Mapping[Role, RoleInfo] = MappingProxyType(
    {
        "generator": RoleInfo("draftverify.generators", "a generator", "propose"),
        "verifier": RoleInfo("draftverify.verifiers", "a verifier", "verify"),
        "rule": RoleInfo("draftverify.rules", "a rule", "decide"),
        "model": RoleInfo("draftverify.models", "a model"),
        "tasks": RoleInfo("draftverify.tasks", "a source of tasks", "load"),
        "stopping": RoleInfo("draftverify.stopping", "a stopping rule", "__call__"),
        "threshold": RoleInfo("draftverify.thresholds", "a threshold", "check_pipeline"),
        "block": RoleInfo("draftverify.blocks", "a block size", "size"),
        "metric": RoleInfo("draftverify.metrics", "a metric", "__call__"),
        "executor": RoleInfo("draftverify.executors", "an executor"),
        "trainer": RoleInfo("draftverify.trainers", "a trainer", "train"),
        "function": RoleInfo("draftverify.functions", "a function"),
    }
)


class Plugin(msgspec.Struct, frozen=True):
    """One entry point: a name in a role, and what stands behind it.

    Args:
        role: which of the roles; "" when the package's entry points cannot be read at all, and in a group that is none.
        name: as a config writes it after `use:`.
        target: "module:Class".
        distribution: the package that registers it.
        version: of that package.
        unreadable: why the package's entry points, or this one, cannot be read.
    """

    role: Role | Literal[""]
    name: str
    target: str
    distribution: str
    version: str
    unreadable: str = ""

    @property
    def package(self) -> str:
        """The package and its version, for messages."""
        return f"{self.distribution} {self.version}"

    def sha256(self) -> str:
        """Of the Python files of the package behind the name, or of its one module; "" when there is none."""
        names = self.target.partition(":")[0].split(".")
        for depth in range(1, len(names) + 1):
            try:
                spec = util.find_spec(".".join(names[:depth]))
            except (ImportError, ValueError):
                return ""
            if spec is not None and spec.origin is not None:  # else several packages share the name
                file = Path(spec.origin)
                folder = file.parent
                files = sorted(folder.rglob("*.py")) if spec.submodule_search_locations else [file]
                digest = hashlib.sha256()
                for source in files:
                    digest.update(f"{source.relative_to(folder)}\0".encode() + source.read_bytes())
                return digest.hexdigest()
        return ""

    def load(self) -> Factory:
        """Import what stands behind the name.

        Raises:
            PluginError: its import failed, or it is nothing that builds a part.
            ResourceError: an optional package is missing; the message says which extra installs it.
        """
        if self.unreadable:
            raise PluginError(self.unreadable)
        subject = f"{self.role or 'entry point'} {self.name!r}"
        entry = metadata.EntryPoint(self.name, self.target, "")
        if not entry.pattern.match(self.target):
            raise PluginError(f"{subject} of {self.package}: {self.target!r} is not of the form module:Class")
        try:
            target = entry.load()
        except (Exception, SystemExit) as error:
            missing = missing_package(error, self.distribution, prefer=self.name)
            if missing:
                raise ResourceError(f"{subject} {missing}") from error
            raise PluginError(
                f"{subject} of {self.package} cannot be imported: {type(error).__name__}: {error}\n"
                f"`draftverify plugins {self.name}` shows the traceback; mend or uninstall {self.distribution}"
            ) from error
        problem = unfit(target, self.role) if self.role else ""
        if problem:
            raise PluginError(f"{subject} of {self.package}: {self.target} {problem}")
        factory: Factory = target
        return factory


class Examined(msgspec.Struct, frozen=True):
    """A plugin after its import was tried.

    Args:
        plugin: which.
        status: "ok", "missing" (an optional package is not installed), "broken", or "duplicate" (another package
            registers the same name).
        message: what is wrong, in words.
        traceback: of the failed import.
    """

    plugin: Plugin
    status: Literal["ok", "missing", "broken", "duplicate"]
    message: str = ""
    traceback: str = ""


def installed() -> tuple[Plugin, ...]:
    """Every plugin that an installed package registers, by role and name. Nothing is imported."""
    return _scan(tuple(sys.path)).parts


def hooks(group: str) -> tuple[Plugin, ...]:
    """What packages join by a group of `HOOKS`, in the order of the path, two of one name too. Nothing is imported."""
    return _scan(tuple(sys.path)).hooks[group]


class _Scan(NamedTuple):
    parts: tuple[Plugin, ...]
    hooks: Mapping[str, tuple[Plugin, ...]]


@lru_cache(maxsize=8)
def _scan(path: tuple[str, ...]) -> _Scan:
    plugins: list[Plugin] = []
    hooked: dict[str, list[Plugin]] = {group: [] for group in HOOKS}
    seen: set[str] = set()
    roles = {info.group: role for role, info in ROLES.items()}
    for distribution in metadata.distributions(path=list(path)):
        try:
            text = distribution.read_text("entry_points.txt") or ""
        except UnicodeDecodeError:  # not ours to say whose names it would have held
            continue
        if "draftverify." not in text:
            continue
        name = distribution.metadata["Name"] or "(a package without a name)"
        # A package found twice on the path is the first one, as it is for imports.
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            continue
        seen.add(key)
        version = distribution.version  # which reads the package's metadata anew each time
        try:
            entries = [(entry.group, entry.name, entry.value) for entry in distribution.entry_points]
        except Exception as error:
            why = f"the entry points of {name} {version} cannot be read: {type(error).__name__}: {error}"
            plugins.append(Plugin("", "(all)", "entry_points.txt", name, version, why))
            continue
        for group, entry, value in entries:
            if group in roles:
                plugins.append(Plugin(roles[group], entry, value, name, version))
            elif group in hooked:
                hooked[group].append(Plugin("", entry, value, name, version))
            elif group.startswith("draftverify."):
                why = f"{name} {version} registers {entry!r} in the group {group!r}, which there is not"
                why += did_you_mean(group, [*roles, *HOOKS])
                plugins.append(Plugin("", entry, value, name, version, why))
    order = ["", *ROLES]
    parts = sorted(plugins, key=lambda plugin: (order.index(plugin.role), plugin.name, plugin.distribution))
    return _Scan(tuple(parts), {group: tuple(registered) for group, registered in hooked.items()})


def examine() -> tuple[Examined, ...]:
    """Import every plugin and say how that went."""
    plugins = installed()
    examined = []
    for plugin in plugins:
        twins = [twin for twin in plugins if (twin.role, twin.name) == (plugin.role, plugin.name)]
        if len(twins) > 1:
            message = f"registered by {' and '.join(twin.package for twin in twins)}; uninstall one of them"
            examined.append(Examined(plugin, "duplicate", message))
            continue
        try:
            plugin.load()
        except DraftVerifyError as error:
            status: Literal["missing", "broken"] = "missing" if isinstance(error, ResourceError) else "broken"
            details = "".join(traceback.format_exception(error.__cause__)) if error.__cause__ else ""
            examined.append(Examined(plugin, status, str(error).splitlines()[0], details))
        else:
            examined.append(Examined(plugin, "ok"))
    return tuple(examined)


def find(role: Role, name: str) -> Plugin:
    """The one plugin of this name in this role. Nothing is imported.

    Raises:
        PluginError: there is none (with the nearest names, and other roles that have it), or more than one.
    """
    plugins = [plugin for plugin in installed() if (plugin.role, plugin.name) == (role, name)]
    if not plugins:
        raise PluginError(unknown(role, name))
    if len(plugins) > 1:
        packages = " and ".join(f"{plugin.package} ({plugin.target})" for plugin in plugins)
        raise PluginError(f"{role} {name!r} is registered twice, by {packages}; uninstall one of them")
    return plugins[0]


def unknown(role: Role | Sequence[Role], name: str, *, local: Iterable[str] = ()) -> str:
    """What to say of a name that nothing in this role, or in any of these, has.

    Args:
        role: where it was looked for.
        name: what was looked for.
        local: names that a config's own files add.
    """
    roles: Sequence[Role] = [role] if isinstance(role, str) else role
    noun = one_of([ROLES[wanted_role].noun for wanted_role in roles])
    nouns = sorted({ROLES[plugin.role].noun for plugin in installed() if plugin.role and plugin.name == name})
    if nouns:
        return f"{name!r} is {' and '.join(nouns)}, not {noun}"
    astray = [plugin for plugin in installed() if not plugin.role and plugin.name == name]
    if astray:
        return astray[0].unreadable
    names = [*(plugin.name for plugin in installed() if plugin.role in roles), *local]
    near = did_you_mean(name, names)
    if len(names) > LISTED and not near.startswith("; did"):
        stem, _, attribute = name.partition(".")
        only = f" --role {roles[0]}" if len(roles) == 1 else ""
        near = f"; `draftverify plugins{only}` lists what there is"
        if attribute[:1].isupper():  # as a class of a parts file
            near += f"; for a class of {stem}.py write parts: [./{stem}.py]"
    return f"there is no {noun.partition(' ')[2]} {name!r}{near}"


def one_of(nouns: Sequence[str]) -> str:
    """ "a generator, verifier or rule"."""
    first, *others = nouns
    bare = [noun.partition(" ")[2] for noun in others]
    return ", ".join([first, *bare[:-1]]) + (f" or {bare[-1]}" if bare else "")


def load(role: Role, name: str) -> Factory:
    """What stands behind a name: a class, or a function that returns a part.

    Raises:
        PluginError: the name is unknown, taken twice, or its import fails.
        ResourceError: an optional package is missing.
    """
    return find(role, name).load()


def unfit(target: Any, *roles: Role) -> str:
    """Why this object cannot build a part of any of these roles; "" when it can, as far as can be seen."""
    if not callable(target):
        return f"is a {type(target).__name__}, not a class or a function that returns a part"
    methods = [ROLES[role].method for role in roles]
    if not all(methods) or not inspect.isclass(target) or {*roles} & {*roles_of(target)}:
        return ""
    listed = ", ".join(f"{method}()" for method in methods)
    lack = f"has no {listed}" if len(methods) == 1 else f"has none of {listed}"
    able = " or ".join(ROLES[role].noun for role in roles_of(target))
    noun = one_of([ROLES[role].noun for role in roles]).partition(" ")[2]
    return f"{lack}, so it is no {noun}" + (f"; it could be {able}" if able else "")


def roles_of(cls: Any) -> tuple[Role, ...]:
    """The roles whose method a class has; a function has none. (Any class is called, so `__call__` must be its own.)"""
    if not inspect.isclass(cls):
        return ()
    attributes = {name for base in cls.__mro__ for name in vars(base)}
    return tuple(role for role, info in ROLES.items() if info.method in attributes)


def required(module: str, doing: str, extra: str) -> Any:
    """A module of a package that an extra brings, imported.

    Args:
        module: its full name.
        doing: what needs it, for the message.
        extra: which one.

    Raises:
        ResourceError: it is not installed.
    """
    try:
        import_module(module.partition(".")[0])
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        how = f"install draftverify with the extra {extra!r}"
        raise ResourceError(f"{doing} needs {package}, which is not installed: {how}") from error


def missing_package(error: BaseException, distribution: str = "draftverify", *, prefer: str = "") -> str:
    """What to install, when an import failed for want of a package that an extra of `distribution` brings.

    Args:
        error: of the failed import.
        distribution: whose extras are looked through.
        prefer: a name like "tokens.target"; where several extras bring the package, the one it begins with.

    Returns:
        "needs torch, which is not installed: install draftverify with the extra 'tokens'", or "" for any other error.
    """
    link: BaseException | None = error
    while link is not None and not isinstance(link, ModuleNotFoundError):
        link = link.__cause__ or link.__context__
    if link is None or not link.name:
        return ""
    module = link.name.partition(".")[0]
    try:
        requirements = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return ""
    matches = [
        re.match(r"\s*([\w.-]+)[^;]*;.*\bextra\s*==\s*['\"]([\w.-]+)['\"]", text) for text in requirements
    ]
    brings = [(match[1].lower().replace("-", "_"), match[2]) for match in matches if match]
    extras = [extra for package, extra in brings if package == module.lower()]
    if not extras:
        return ""
    # Else the smallest: an extra like "all" brings the package too.
    sizes = Counter(extra for _, extra in brings)
    extra = min(extras, key=lambda name: (not prefer.startswith(name), sizes[name]))
    command = f"pip install '{distribution}[{extra}]'"
    if distribution == "draftverify":  # a clone is installed from its folder, and not by name
        command = f"install draftverify with the extra '{extra}'"
    return f"needs {module}, which is not installed: {command}"


class PartsFile(msgspec.Struct, frozen=True):
    """A local Python file that a config opts in with `parts:`; its classes are named `stem.ClassName`.

    Args:
        path: absolute.
        sha256: of the file as the config found it; a file that has changed since is refused.
    """

    path: str
    sha256: str

    @staticmethod
    def read(path: Path) -> PartsFile:
        """The file as it is now.

        Raises:
            ConfigError: it cannot be read, or its name cannot stand before a dot.
        """
        if not path.stem.isidentifier() or path.suffix != ".py":
            raise ConfigError(f"{path.name} cannot name parts; a file like my_parts.py can")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"the parts file cannot be read: {error.strerror or error} ({path})") from error
        return PartsFile(str(path), hashlib.sha256(data).hexdigest())

    @property
    def stem(self) -> str:
        """What stands before the dot in `use:`."""
        return Path(self.path).stem

    def load(self) -> dict[str, Any]:
        """The file's public classes and functions, by their names in a config.

        Raises:
            ConfigError: the file has changed, or running it failed; with the line of the file.
        """
        module = self._module()
        return {
            f"{self.stem}.{name}": value
            for name, value in vars(module).items()
            if not name.startswith("_")
            and callable(value)
            and getattr(value, "__module__", None) == module.__name__
        }

    def _module(self) -> ModuleType:
        # The name holds the hash, so two files of one name never meet, and pickles find it in every process.
        name = f"draftverify_parts_{self.stem}_{self.sha256[:12]}"
        if name in sys.modules:
            return sys.modules[name]
        if PartsFile.read(Path(self.path)).sha256 != self.sha256:
            raise ConfigError(f"{self.path} has changed since the config was read; run the command again")
        spec = util.spec_from_file_location(name, self.path)
        assert spec is not None
        module = util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            # Not by the spec's loader, which takes a compiled module of the same second and length for this one.
            exec(compile(Path(self.path).read_bytes(), self.path, "exec"), vars(module))
        except BaseException as error:
            del sys.modules[name]  # half of it
            if not isinstance(error, (Exception, SystemExit)):
                raise
            line = _line_in(self.path, error)
            raise ConfigError(
                f"running {Path(self.path).name} failed{line}: {type(error).__name__}: {error}",
                where=self.path,
            ) from error
        return module


def _line_in(path: str, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename == path:
        return f" at line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" at line {lines[-1]}" if lines else ""
