"""The conformance kit: every check of a component's role, in one call or as pytest's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from draftverify.errors import ContractError, check_known
from draftverify.kit import components as _components
from draftverify.kit import endings as _endings
from draftverify.kit import generators as _generators
from draftverify.kit import rules as _rules
from draftverify.kit import verifiers as _verifiers
from draftverify.kit.assertions import NotExercised
from draftverify.kit.registry import CHECKS
from draftverify.kit.subject import Role, Subject, roles_of

_FAMILIES = (_components, _generators, _verifiers, _rules, _endings)  # importing them registered their checks


Status: TypeAlias = Literal["passed", "failed", "expected", "unexercised", "skipped"]
"""How a check ended: "expected" is a failure that its author foresaw; "unexercised" is one that found nothing to look
at, so that it says nothing; "skipped" is one that stands on another which did not pass."""


class Result(msgspec.Struct, frozen=True):
    """How one check ended.

    Args:
        check: its name.
        status: see `Status`.
        message: what was seen and what to do; of a check that was not run, why.
        reason: of an expected failure, its author's.
    """

    check: str
    status: Status
    message: str = ""
    reason: str = ""

    @property
    def law(self) -> str:
        """The law that the check holds a component to."""
        return CHECKS[self.check].doc


class ConformanceReport(msgspec.Struct, frozen=True):
    """The results of all checks that apply to a component."""

    component: str
    results: tuple[Result, ...]

    def ended(self, status: Status) -> tuple[Result, ...]:
        """The results that have this status."""
        return tuple(result for result in self.results if result.status == status)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that failed unexpectedly."""
        return tuple(result.check for result in self.ended("failed"))

    def __str__(self) -> str:
        lines = [f"{self.component} fails {len(self.failed)} of {len(self.results)} checks"]
        for result in self.ended("failed"):
            lines += [f"  {result.check}: {result.law}", f"    {result.message}"]
        for result in self.ended("expected"):
            lines += [f"  failed as expected ({result.reason}): {result.check}", f"    {result.message}"]
        for result in self.ended("unexercised"):
            lines.append(f"  not exercised: {result.check}: {result.message}")
        skipped = [result.check for result in self.ended("skipped")]
        return "\n".join(
            lines + ([f"  not run, since they stand on these: {', '.join(skipped)}"] if skipped else [])
        )


class ConformanceError(ContractError, AssertionError):
    """A component failed conformance checks; `report` has them all."""

    def __init__(self, report: ConformanceReport) -> None:
        self.report = report
        super().__init__(str(report))


def check_names(role: Role | None = None) -> list[str]:
    """The names of all checks, or of those for a role."""
    return [name for name, check in CHECKS.items() if role is None or check.role in (None, role)]


def check_component(
    component: Any,
    *,
    role: Role | None = None,
    expected_failures: Mapping[str, str] | None = None,
    **inputs: Any,
) -> ConformanceReport:
    """Run every check that applies to a component.

    Args:
        component: the instance, or a `Subject` made of it.
        role: the one role to check; every role that it has the method of when None.
        expected_failures: for checks that are known to fail, the reason. One that passes all the same, or does not
            apply, is a failure. It stands here and not in the class, so that nothing passes its own exam by decree.
        **inputs: the arguments of `Subject`: contexts, tasks, settings, proposals, cases, poison, block, trials,
            tolerance.

    Returns:
        The report, when nothing failed unexpectedly. What it lists as "unexercised" has not been tested.

    Raises:
        ConformanceError: listing each failed check with what was found and what to do.
        ConfigError: when the component has no role, or an expected failure names no check.
    """
    runs = [_Run(subject, expected_failures) for subject in _subjects(component, role, inputs)]
    results: list[Result] = []
    for run in runs:
        try:
            results += [run.result(name) for name in CHECKS if run.applies(name)]
        finally:
            run.subject.close()
    beside = set(expected_failures or ()).difference(result.check for result in results)
    results += [Result(name, "failed", _BESIDE) for name in CHECKS if name in beside]
    report = ConformanceReport(type(runs[0].subject.given).__name__, tuple(results))
    if report.failed:
        raise ConformanceError(report)
    return report


def parametrize_with_checks(
    components: Iterable[Any], *, expected_failures: Mapping[str, str] | None = None, **inputs: Any
) -> Any:
    """A pytest decorator that runs each check of each component as a test of its own.

    Args:
        components: instances, or `Subject`s where a component needs contexts of its own domain.
        expected_failures: for checks that are known to fail, the reason; they become strict xfails.
        **inputs: the arguments of `Subject`, for the components that are not Subjects.

    Examples:
        >>> from draftverify.kit.tables import DraftFrom, TableModel
        >>> from draftverify.kit.conformance import parametrize_with_checks
        >>> @parametrize_with_checks([DraftFrom(TableModel(vocabulary=5))])
        ... def test_conformance(component, check):
        ...     check(component)
    """
    import pytest

    cases = []
    for subject in (subject for component in components for subject in _subjects(component, None, inputs)):
        run = _Run(subject, expected_failures)
        for name in check_names(subject.role):
            reason = run.expected.get(name)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            cases.append(
                pytest.param(
                    subject.given, run.bound(name), id=f"{type(subject.given).__name__}-{name}", marks=marks
                )
            )
    return pytest.mark.parametrize(("component", "check"), cases)


_STALE = "it was expected to fail and passes; take it out of expected_failures"
_IDLE = "it was expected to fail and had nothing to look at; give what it fails on, or take it out"
_APPLIES_NOT = "the check is about a role, or a capability, that this component does not have"
_BESIDE = f"it was expected to fail, and {_APPLIES_NOT}; take it out of expected_failures"


class _Run:
    """The checks of one subject, each run once, after those it stands on."""

    def __init__(self, subject: Subject, expected: Mapping[str, str] | None) -> None:
        self.subject = subject
        self.expected = expected or {}
        self.done: dict[str, Result] = {}
        for name in self.expected:
            check_known("check", name, CHECKS)

    def applies(self, name: str) -> bool:
        """Whether the component has the role, and the capability, that a check is about."""
        try:
            return CHECKS[name].applies(self.subject)
        except (Exception, SystemExit):  # it cannot be opened, so that there is no asking; `opens` says so
            return CHECKS[name].role in (None, self.subject.role)

    def result(self, name: str) -> Result:
        """The result of a check, which is run once."""
        if name not in self.done:
            self.done[name] = self._result(name)
        return self.done[name]

    def _result(self, name: str) -> Result:
        for earlier in CHECKS[name].after:
            earlier_result = self.result(earlier) if self.applies(earlier) else None
            if earlier_result is not None and earlier_result.status == "skipped":
                # Which failed, not which was not run for it.
                return Result(name, "skipped", earlier_result.message)
            if earlier_result is not None and earlier_result.status not in ("passed", "unexercised"):
                return Result(name, "skipped", f"not run, since {earlier} failed")
        message = unexercised = ""
        try:
            CHECKS[name].run(self.subject)
        except NotExercised as nothing:
            unexercised = str(nothing)
        except AssertionError as finding:
            message = str(finding)
        except (Exception, SystemExit) as error:
            message = f"{type(error).__name__} was raised: {error}"
        if name not in self.expected:
            if unexercised:
                return Result(name, "unexercised", unexercised)
            return Result(name, "failed" if message else "passed", message)
        if message:
            return Result(name, "expected", message, self.expected[name])
        return Result(name, "failed", f"{_IDLE}: {unexercised}" if unexercised else _STALE)

    def bound(self, name: str) -> Any:
        """The check as a pytest parameter: a function of the component."""
        import pytest

        def check(component: Any) -> None:
            if not self.applies(name):
                if name not in self.expected:
                    pytest.skip(f"not run: {_APPLIES_NOT}")
                return  # the strict xfail makes a failure of it
            result = self.result(name)
            if result.status == "skipped":
                (pytest.xfail if self.expected else pytest.skip)(result.message)
            if result.status == "unexercised":
                pytest.skip(f"not run: {result.message}")
            if (result.status == "failed") != (name in self.expected):
                result = Result(name, "failed", result.message)
                raise ConformanceError(ConformanceReport(type(component).__name__, (result,)))

        return check


def _subjects(component: Any, role: Role | None, inputs: Mapping[str, Any]) -> Iterator[Subject]:
    if isinstance(component, Subject):
        yield component
        return
    roles: list[Role | None] = [role] if role is not None else [*roles_of(component)]
    for role in roles or [None]:
        yield Subject(component, role=role, **inputs)
