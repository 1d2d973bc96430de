"""The config file: read, checked as a whole, and turned into specs; every error says file, line and dotted path.

The fixed part is checked by the models in `format`, the parts (`{use: NAME, …}`) by the signatures of the classes that
the names stand for. All errors are collected and raised at once. No part is built here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from draftverify import plugins
from draftverify.errors import ConfigError, DraftVerifyError, PipelineError
from draftverify.experiments.format import SECRET, STEPS, ClauseModel, FileModel, PipelineModel, known_keys
from draftverify.experiments.located import Located, override, read
from draftverify.experiments.parameters import (
    Either,
    FilePath,
    Form,
    Keyed,
    Listed,
    Part,
    Plain,
    Secreted,
    parameters,
)
from draftverify.experiments.specs import ClauseSpec, ComponentSpec, Experiment, PipelineSpec
from draftverify.plugins import PartsFile, Role, did_you_mean

__all__ = ["ConfigErrors", "load_experiment"]

Steps = tuple[str | int, ...]


class ConfigErrors(ConfigError):
    """All that is wrong with a config, at once.

    Args:
        errors: in the order of the file.
    """

    def __init__(self, errors: Sequence[DraftVerifyError]) -> None:
        first = errors[0]
        super().__init__(
            f"{len(errors)} errors", where=getattr(first, "where", ""), path=getattr(first, "path", "")
        )
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def load_experiment(
    file: str | os.PathLike[str], *, overrides: Iterable[str] = (), limit: int | None = None
) -> Experiment:
    """Read and check a config file.

    Args:
        file: the YAML file. Paths in it are relative to its directory.
        overrides: "a.b.c=value" each, as after `--set`; the value is read as YAML.
        limit: at most so many tasks, as after `--limit`.

    Returns:
        The experiment as plain data; no part has been built and nothing heavy imported.

    Raises:
        ConfigError: what is wrong, where and what to do; a ConfigErrors when there is more than one thing.
        PluginError: a named plugin is broken, or two have its name.
        ResourceError: a named plugin needs a package that is not installed.
    """
    path = Path(file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(_unreadable(path, error), where=str(file)) from error
    root, errors = read(data, str(file))
    for assignment in overrides:
        root = override(root, assignment)
    if limit is not None:
        root = override(root, f"tasks.limit={limit}", option=f"--limit {limit}")
    return _Checker(root, path, errors).experiment()


def _unreadable(path: Path, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        return f"the config cannot be read: {error.strerror or error}"
    try:
        near = [each.name for each in path.parent.iterdir() if each.suffix in (".yaml", ".yml")]
    except OSError:
        return f"there is no directory {path.parent}"
    return f"there is no such file{did_you_mean(path.name, near)}" + (
        "" if near else "; `draftverify init` writes one"
    )


class _Failed(Exception):
    """The value is wrong, and its error has been noted."""


class _Checker:
    """One reading of one file: collects errors, and makes the specs when there are none."""

    def __init__(self, root: Located, path: Path, errors: list[ConfigError]) -> None:
        self.root = root
        self.path = path
        self.base = Path(os.path.abspath(path)).parent
        self.errors: list[tuple[str, DraftVerifyError]] = [(error.where, error) for error in errors]
        self.local: dict[str, tuple[PartsFile, Any]] = {}
        self.files: list[PartsFile] = []
        self.models: dict[str, ComponentSpec | None] = {}
        self.resolving: list[str] = []

    def experiment(self) -> Experiment:
        checked = self.fixed()
        self.read_parts()
        models = self.inside(("models",))
        for name in models:
            self.model(name)
        tasks = self.component(("tasks",), "tasks")
        executor = self.component(("executor",), "executor")
        pipelines = [self.pipeline(name) for name in self.inside(("pipelines",))]
        baseline = self.inside(()).get("baseline")
        names = self.inside(("pipelines",))
        if baseline is not None and isinstance(baseline.value, str) and baseline.value not in names:
            self.error(
                f"there is no pipeline {baseline.value!r}{did_you_mean(baseline.value, names)}", ("baseline",)
            )
        if self.errors:
            errors = [error for _, error in sorted(self.errors, key=lambda noted: _line(noted[0]))]
            raise errors[0] if len(errors) == 1 else ConfigErrors(errors)
        assert checked is not None
        assert tasks is not None
        name = checked.name or re.sub(r"^\W|[^\w.-]", "-", self.path.stem)
        return Experiment(
            name=name,
            seed=checked.seed,
            tasks=tasks,
            pipelines=tuple(
                self.pipeline_spec(parts, each, checked.pipelines[each], checked)
                for parts, each in zip(pipelines, checked.pipelines, strict=True)
            ),
            baseline=checked.baseline,
            executor=executor or ComponentSpec("executor", "serial"),
            durable=checked.durable,
            epoch=checked.epoch,
            calibrate=checked.calibrate.limit if checked.calibrate else None,
            file=str(self.path),
            config=self.resolved(name, checked),
        )

    # The fixed part

    def fixed(self) -> FileModel | None:
        if not isinstance(self.root.value, dict):
            self.error(
                f"a config is a mapping (name: …, tasks: …, pipelines: …), not {_shown(self.root.plain())}",
                (),
            )
            return None
        try:
            return FileModel.model_validate_json(json.dumps(self.root.plain()))
        except ValidationError as error:
            self.refused(error, self.root, (), known=known_keys)
            return None

    def refused(
        self,
        error: ValidationError,
        node: Located,
        path: Steps,
        known: Callable[[Steps], Iterable[str]] | None = None,
    ) -> None:
        """Note what pydantic refused below `node`, once per place."""
        seen: dict[Steps, list[str]] = {}
        for detail in error.errors(include_url=False):
            loc = detail["loc"]
            here, taken = node.follow(loc)
            place = (*path, *taken)
            kind = detail["type"]
            if kind == "missing":
                place, text = (*place, str(loc[-1])), "is missing"
            elif kind == "extra_forbidden":
                text = (
                    f"unknown key {loc[-1]!r}{did_you_mean(str(loc[-1]), known(place[:-1]) if known else ())}"
                )
            elif kind == "string_pattern_mismatch" and known:
                name = here.value if isinstance(here.value, str) else loc[-2]
                text = f"the name {name!r} should be a word of letters, digits, _ and -"
            else:
                text = f"{_lowered(detail['msg'])}, not {_shown(here.plain())}"
            seen.setdefault(place, []).append(text)
        for place, texts in seen.items():
            self.error(" or ".join(dict.fromkeys(texts)), place)

    # Parts

    def read_parts(self) -> None:
        listed = self.inside(()).get("parts")
        for index, node in enumerate(listed.value if listed and isinstance(listed.value, list) else []):
            if not isinstance(node.value, str):
                continue  # noted with the fixed part
            try:
                file = PartsFile.read(self.absolute(node.value))
                found = file.load()
            except ConfigError as error:
                self.error(error.message, ("parts", index))
                continue
            if any(file.stem == other.stem for other in self.files):
                self.error(f"two parts files are named {file.stem}; rename one", ("parts", index))
            self.files.append(file)
            self.local.update({name: (file, target) for name, target in found.items()})

    def model(self, name: str) -> ComponentSpec | None:
        """A shared model's spec; models may refer to each other."""
        if name in self.resolving:
            circle = " → ".join([*self.resolving[self.resolving.index(name) :], name])
            self.error(f"these models refer to each other in a circle: {circle}", ("models", name))
            raise _Failed
        if name not in self.models:
            self.resolving.append(name)
            try:
                self.models[name] = self.component(("models", name), "model")
            finally:
                self.resolving.pop()
        return self.models[name]

    def component(
        self, path: Steps, *roles: Role, part: Part | None = None, optional: bool = False
    ) -> ComponentSpec | None:
        """The spec at a path where `{use: …}` is due; None when there is nothing, or nothing right."""
        node, taken = self.root.follow(path)
        if len(taken) < len(path) or (optional and node.value is None):
            return None  # a missing one is noted with the fixed part
        use = node.value.get("use") if isinstance(node.value, dict) else None
        if use is None or not isinstance(use.value, str):
            name = node.value if isinstance(node.value, str) else "NAME"
            self.error(f"a part is written {{use: {name}, …}}, not {_shown(node.plain())}", path)
            return None
        place = (*path, "use")
        if use.value in self.local:
            file, target = self.local[use.value]
            role = next((role for role in roles if not plugins.unfit(target, role)), None)
            if role is None:
                self.error(f"{use.value} {plugins.unfit(target, roles[0])}", place)
                return None
            return self.spec(ComponentSpec(role, use.value, {}, file), target, node, path, part)
        known = {plugin.role for plugin in plugins.installed() if plugin.name == use.value}
        role = next((role for role in roles if role in known), None)
        if role is None:
            self.error(self.unknown(use.value, roles[0]), place)
            return None
        try:
            target = plugins.load(role, use.value)
        except DraftVerifyError as error:
            self.plugin_error(error, place)
            return None
        return self.spec(ComponentSpec(role, use.value), target, node, path, part)

    def unknown(self, name: str, role: Role) -> str:
        stem = name.partition(".")[0]
        if any(file.stem == stem for file in self.files):
            own = [each for each in self.local if each.startswith(f"{stem}.")]
            return f"{stem}.py defines no {name.partition('.')[2]!r}{did_you_mean(name, own)}"
        return plugins.unknown(role, name, local=self.local)

    def spec(
        self, spec: ComponentSpec, target: Any, node: Located, path: Steps, part: Part | None
    ) -> ComponentSpec | None:
        if part is not None and part.refuses(target):
            self.error(
                f"{spec.use} is a {target.__name__}; a {part.annotation.__name__} is needed here",
                (*path, "use"),
            )
            return None
        try:
            takes = parameters(target)
        except DraftVerifyError as error:
            self.plugin_error(error, (*path, "use"))
            return None
        arguments = {}
        failed = False
        for key in node.value:
            if key == "use":
                continue
            if key not in takes:
                known = did_you_mean(key, takes) if takes else f"; {spec.use} takes no arguments"
                self.error(f"unknown key {key!r} of {spec.use}{known}", (*path, key))
                failed = True
                continue
            try:
                arguments[key] = self.argument(takes[key].form, (*path, key))
            except _Failed:
                failed = True
        for key, parameter in takes.items():
            if parameter.required and key not in node.value:
                meaning = f": {parameter.description}" if parameter.description else ""
                self.error(f"is missing; {spec.use} needs it{meaning}", (*path, key))
                failed = True
        return None if failed else ComponentSpec(spec.role, spec.use, arguments, spec.file)

    def argument(self, form: Form, path: Steps) -> Any:
        """The value at a path as plain data for a spec.

        Raises:
            _Failed: it does not have the form; the error is noted.
        """
        node, _ = self.root.follow(path)
        value = node.value
        if isinstance(form, Either):
            return self.argument(self.choose(form, node), path)
        if isinstance(form, Part):
            return self.part(form, node, path)
        if isinstance(form, Secreted):
            return self.secret(value, path)
        if isinstance(form, FilePath):
            if not isinstance(value, str):
                raise self.failed(f"should be a path, not {_shown(node.plain())}", path)
            return str(self.absolute(value))
        if isinstance(form, Listed):
            if not isinstance(value, list):
                raise self.failed(f"should be a list, not {_shown(node.plain())}", path)
            return list(self.arguments(form.element, path, range(len(value))).values())
        if isinstance(form, Keyed):
            if not isinstance(value, dict):
                raise self.failed(f"should be a mapping, not {_shown(node.plain())}", path)
            return self.arguments(form.element, path, value)
        plain = node.plain()
        for text in _texts(plain):
            if SECRET.fullmatch(text):
                raise self.failed(
                    f"{text} stands where no secret is taken; only parameters of type Secret read the environment",
                    path,
                )
        try:
            form.check(plain)
        except ValidationError as error:
            self.refused(error, node, path)
            raise _Failed from error
        return plain

    def arguments(self, form: Form, path: Steps, places: Iterable[Any]) -> dict[Any, Any]:
        """The arguments at places of a list or a mapping; what is wrong with each is noted before any is refused."""
        found = {}
        failed: _Failed | None = None
        for place in places:
            try:
                found[place] = self.argument(form, (*path, place))
            except _Failed as error:
                failed = error
        if failed is not None:
            raise failed
        return found

    def choose(self, form: Either, node: Located) -> Form:
        """The alternative that a value is meant as."""
        plain = next((each for each in form.forms if isinstance(each, Plain)), None)
        value = node.value

        def has(kind: type) -> Form | None:
            return next((each for each in form.forms if isinstance(each, kind)), None)

        if isinstance(value, dict):
            chosen = (has(Part) if "use" in value else None) or has(Keyed)
        elif isinstance(value, list):
            chosen = has(Listed)
        elif isinstance(value, str):
            is_path = value.startswith(("./", "../", "/", "~"))
            chosen = (
                (has(Secreted) if SECRET.fullmatch(value) else None)
                or (has(Part) if value in self.inside(("models",)) else None)
                or (has(FilePath) if is_path or plain is None or not _accepts(plain, value) else None)
            )
        else:
            chosen = None
        if chosen is None and plain is not None and (_accepts(plain, node.plain()) or len(form.forms) == 1):
            return plain
        return chosen or form.forms[0]

    def part(self, form: Part, node: Located, path: Steps) -> ComponentSpec:
        if isinstance(node.value, str) and "model" in form.roles:
            models = self.inside(("models",))
            if node.value not in models:
                raise self.failed(
                    f"there is no {node.value!r} under models{did_you_mean(node.value, models)}; "
                    "a part is a name from models, or {use: …}",
                    path,
                )
            spec = self.model(node.value)
            if spec is not None:
                target = self.local[spec.use][1] if spec.file else plugins.load(spec.role, spec.use)
                if form.refuses(target):
                    raise self.failed(
                        f"the model {node.value} is a {target.__name__}; a {form.annotation.__name__} is needed here",
                        path,
                    )
        else:
            spec = self.component(path, *form.roles, part=form)
        if spec is None:
            raise _Failed
        return spec

    def secret(self, value: Any, path: Steps) -> str:
        match = SECRET.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise self.failed(
                "is a secret: write ${NAME}, the name of an environment variable that holds it", path
            )
        if match[1] not in os.environ:
            raise self.failed(
                f"the environment variable {match[1]} is not set; export {match[1]}=… first", path
            )
        return match[0]

    # Pipelines

    def pipeline(self, name: str) -> dict[str, Any]:
        path: Steps = ("pipelines", name)
        found: dict[str, Any] = {
            "generator": self.component((*path, "generator"), "generator"),
            "verifier": self.component((*path, "verifier"), "verifier"),
            "rule": self.component((*path, "rule"), "rule"),
            "block": self.block((*path, "block")),
            "done": self.component((*path, "done"), "stopping", optional=True),
        }
        clauses, _ = self.root.follow((*path, "on_rejection"))
        if "on_rejection" in self.inside(path) and isinstance(clauses.value, list):
            found["clauses"] = [
                self.clause((*path, "on_rejection", index)) for index in range(len(clauses.value))
            ]
        return found

    def block(self, path: Steps) -> int | ComponentSpec | None:
        node, taken = self.root.follow(path)
        if len(taken) < len(path):
            return 1
        if isinstance(node.value, dict):
            return self.component(path, "block")
        if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value >= 0:
            return node.value
        self.error(f"should be a number of items, 0 or more, or {{use: …}}, not {_shown(node.plain())}", path)
        return None

    def clause(self, path: Steps) -> ClauseSpec | None:
        node, _ = self.root.follow(path)
        try:
            clause = ClauseModel.model_validate_json(json.dumps(node.plain()))
        except ValidationError:
            return None  # noted with the fixed part
        options = {
            key: getattr(clause, key) for key in clause.model_fields_set if key not in ("do", "generator")
        }
        if options.get("on", ()) is None:
            del options["on"]
        takes = parameters(STEPS[clause.do])
        for key in options:
            if key not in takes:
                self.error(f"the step {clause.do!r} takes no {key!r}{did_you_mean(key, takes)}", (*path, key))
                return None
        if clause.generator is not None:
            if clause.do != "fallback":
                self.error(f"the step {clause.do!r} takes no generator; fallback does", (*path, "generator"))
                return None
            generator = self.component((*path, "generator"), "generator")
            if generator is None:
                return None
            options["generator"] = generator
            options["name"] = generator.use
        elif clause.do == "fallback":
            self.error("is missing; fallback needs another generator", (*path, "generator"))
            return None
        try:
            STEPS[clause.do](**options)
        except PipelineError as error:
            self.error(str(error), path)
            return None
        return ClauseSpec(clause.do, options)

    def pipeline_spec(
        self, parts: Mapping[str, Any], name: str, checked: PipelineModel, file: FileModel
    ) -> PipelineSpec:
        return PipelineSpec(
            name=name,
            generator=parts["generator"],
            verifier=parts["verifier"],
            rule=parts["rule"],
            block=parts["block"],
            done=parts["done"],
            settings={**file.settings, **checked.settings},
            on_rejection=tuple(parts.get("clauses", ())),
            budget=checked.budget.model_dump(exclude_unset=True),
            seed=file.seed,
            where=self.root.follow(("pipelines", name))[0].where,
        )

    def resolved(self, name: str, checked: FileModel) -> dict[str, Any]:
        config = checked.model_dump(mode="json", exclude_unset=True)
        for key in ("seed", "durable", "executor"):
            config.setdefault(key, FileModel.model_fields[key].default)
        config["name"] = name
        if self.files:
            config["parts"] = [
                {"file": written, "sha256": file.sha256}
                for written, file in zip(checked.parts, self.files, strict=True)
            ]
        return config

    # Places

    def absolute(self, written: str) -> Path:
        return Path(os.path.normpath(self.base / os.path.expanduser(written)))

    def inside(self, path: Steps) -> Mapping[str, Located]:
        """The mapping at a path; empty when there is none."""
        node, taken = self.root.follow(path)
        return node.value if len(taken) == len(path) and isinstance(node.value, dict) else {}

    def note(self, error: DraftVerifyError, where: str) -> None:
        self.errors.append((where, error))

    def error(self, message: str, path: Steps) -> None:
        where = self.root.follow(path)[0].where
        self.note(ConfigError(message, where=where, path=_dotted(path)), where)

    def failed(self, message: str, path: Steps) -> _Failed:
        self.error(message, path)
        return _Failed()

    def plugin_error(self, error: DraftVerifyError, path: Steps) -> None:
        """Note an error of a plugin together with the place that names it."""
        where = self.root.follow(path)[0].where
        self.note(type(error)(f"{where}: {_dotted(path)}: {error}"), where)


def _dotted(path: Steps) -> str:
    return ".".join(map(str, path))


def _line(where: str) -> int:
    """The line, for sorting; what the command line set comes first."""
    line = where.rpartition(":")[2]
    return int(line) if line.isdecimal() and not where.startswith("--") else 0


def _accepts(form: Plain, value: Any) -> bool:
    try:
        form.check(value)
    except ValidationError:
        return False
    return True


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _shown(value: Any) -> str:
    """A value as a message names it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" + ("…" if len(value) > 40 else "")
    return json.dumps(value)[:40]


def _lowered(message: str) -> str:
    return message.removeprefix("Input ").removeprefix("Value error, ")
