"""What `draftverify audit part --inputs FILE` reads: the part's arguments, and data of its domain to call it with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field

from draftverify.bench.config.experiment import raise_all, read_config, read_parts
from draftverify.bench.config.forms import ConfigReading, Keyed, Wrong
from draftverify.bench.config.located import Located, shown
from draftverify.bench.config.parameters import Component, Model, Record
from draftverify.bench.config.specs import ComponentSpec
from draftverify.errors import ConfigError
from draftverify.kit.contexts import make_context
from draftverify.plugins import Role
from draftverify.values import Check, Context, Proposal, Verification


class Checked(Component):
    """A part that the kit has checks for.

    Args:
        role: its role; the first that its name has when None.
    """

    def __init__(self, role: Role | None) -> None:
        self.roles = ("generator", "verifier", "rule") if role is None else (role,)


@dataclass(frozen=True)
class ProposalInput:
    """A proposal: one of chain, alternatives and tree."""

    chain: list[Any] | None = None
    alternatives: list[Any] | None = None
    tree: list[Any] | None = None
    parents: list[int] | None = None


@dataclass(frozen=True)
class RuleCase:
    """The input of one call of a rule."""

    proposal: ProposalInput
    checks: list[Any]
    task: dict[str, Any] | None = None
    accepted: list[Any] | None = None


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a checked file of inputs; for what is None the kit has its own.

    Args:
        part: the part, with its arguments.
        expected_failures: the reasons, by the names of checks.
        keywords: the other keys, as `draftverify.kit.Subject` takes them once `subject()` made values of them.
    """

    part: ComponentSpec | None = None
    expected_failures: Mapping[str, str] = {}
    keywords: Mapping[str, Any] = {}

    def subject(self) -> dict[str, Any]:
        """The keyword arguments of `Subject`.

        Raises:
            ConfigError: a proposal or a check is not one.
        """
        arguments = dict(self.keywords)
        if "proposals" in arguments:
            arguments["proposals"] = [
                _proposal(block, f"proposals.{i}") for i, block in enumerate(arguments["proposals"])
            ]
        if "cases" in arguments:
            arguments["cases"] = [*_cases(arguments["cases"])]
        return arguments


def inputs(
    arguments: Mapping[str, Any] = {},
    tasks: list[dict[str, Any]] | None = None,
    settings: Mapping[str, Any] = {},
    proposals: list[ProposalInput] | None = None,
    poison: list[Any] | None = None,
    cases: list[RuleCase] | None = None,
    block: Annotated[int, Field(ge=1)] = 3,
    trials: Annotated[int, Field(ge=100)] = 2000,
    tolerance: Annotated[float, Field(ge=0)] = 1e-5,
    expected_failures: Mapping[str, str] = {},
    parts: tuple[str, ...] = (),
    models: Annotated[Any, Keyed(Model("model"), names=True)] = None,
) -> None:
    """What the conformance kit calls a part with.

    Args:
        arguments: of the part's constructor, as in a config.
        tasks: the input of each task.
        settings: the pipeline's.
        proposals: a verifier's blocks: {chain: […]}, {alternatives: […]}, or {tree: […], parents: […]}.
        poison: items that make a verifier's check crash.
        cases: a rule's: {task: {…}, accepted: […], proposal: {…}, checks: [pass, {verdict: reject, score: 0.5}]}.
        block: how many items a generator is asked for.
        trials: how many draws the statistical checks take.
        tolerance: how far floats may differ between a cached and a fresh computation.
        expected_failures: for checks that are known to fail, the reason.
        parts: as of an experiment.
        models: as of an experiment.
    """


def _inputs(
    arguments: object = None,
    parts: object = None,
    models: object = None,
    expected_failures: Mapping[str, str] = {},
    **keywords: Any,
) -> Inputs:
    return Inputs(expected_failures=expected_failures, keywords=keywords)


INPUTS = Record(inputs, _inputs)


def load_inputs(
    use: str,
    file: str | os.PathLike[str] | None = None,
    *,
    role: Role | None = None,
    parts: Sequence[str] = (),
) -> Inputs:
    """Read and check what the conformance kit is to call a part with.

    Args:
        use: the part's name.
        file: the YAML file, see `draftverify.kit.inputs.inputs`; None: nothing but the part's name.
        role: in which it is looked up; None: as a generator, a verifier or a rule.
        parts: local files of parts, relative to the working directory, besides the file's own.

    Raises:
        ConfigError, PluginError, ResourceError: as for an experiment.
    """
    root, errors = (Located({}, "conform"), []) if file is None else read_config(file, ())
    base = Path.cwd() if file is None else Path(os.path.abspath(file)).parent
    reading = ConfigReading(root, base, errors)
    spec: ComponentSpec | None = None
    inputs = Inputs()
    if isinstance(root.value, dict):
        added_parts = [Located(os.path.abspath(part_file), "conform", ("parts",)) for part_file in parts]
        file_parts = root.value.get("parts", Located([], root.where, ("parts",)))
        if isinstance(file_parts.value, list):
            root.value["parts"] = Located(
                [*file_parts.value, *added_parts], file_parts.where, file_parts.path
            )
        read_parts(reading)
        with suppress(Wrong):
            inputs = INPUTS.check(root, reading)
        arguments = root.value.get("arguments", Located({}, root.where, ("arguments",)))
        if isinstance(arguments.value, dict):
            part = Located(
                {"use": Located(use, root.where), **arguments.value}, arguments.where, arguments.path
            )
            with suppress(Wrong):
                spec = Checked(role).check(part, reading)
    else:
        reading.wrong(root, f"a file of inputs is a mapping (tasks: …, proposals: …), not {shown(root)}")
    raise_all(reading)
    return msgspec.structs.replace(inputs, part=spec)


def _proposal(block: Mapping[str, Any], path: str) -> Proposal:
    shapes = ("chain", "alternatives", "tree")
    filled = {shape: block[shape] for shape in shapes if block.get(shape) is not None}
    if len(filled) != 1 or (block.get("parents") is None) != ("tree" not in filled):
        forms = "{chain: […]}, {alternatives: […]}, or {tree: […], parents: […]}"
        raise ConfigError(f"a proposal is one of {forms}", path=path)
    [(shape, items)] = filled.items()
    if shape != "tree":
        return Proposal.chain(items) if shape == "chain" else Proposal.alternatives(items)
    parents = block["parents"]
    if len(parents) != len(items) or any(not -1 <= parent < i for i, parent in enumerate(parents)):
        raise ConfigError("a tree has one parent for each item, -1 or the place of an earlier one", path=path)
    return Proposal.tree(items, parents)


def _cases(cases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Context, Proposal, Verification]]:
    for number, case in enumerate(cases):
        path = f"cases.{number}"
        proposal = _proposal(case["proposal"], f"{path}.proposal")
        try:
            entries = [{"verdict": check} if isinstance(check, str) else check for check in case["checks"]]
            checks = msgspec.convert(entries, tuple[Check, ...])
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"a check is a verdict or {{verdict: …, score: …}}: {error}", path=path
            ) from error
        if len(checks) != len(proposal):
            message = f"{len(checks)} checks stand beside {len(proposal)} items; one each is needed"
            raise ConfigError(message, path=f"{path}.checks")
        context = make_context(case.get("task") or {}, accepted=case.get("accepted") or ())
        yield context, proposal, Verification(checks=checks)
