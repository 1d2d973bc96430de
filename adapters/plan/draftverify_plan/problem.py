"""A planning problem as the trusted part reads it: parsed and simulated by unified-planning, one step a text.

A step is written as in a plan file, "stack a b" or "(stack a b)". It is split at white space and looked up in the
problem, nothing more, so a hostile text is an unknown action. The verifier parses a problem once per task (`prepare`)
and puts it into the task's input, where the drafters find it.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from draftverify import Context, DraftVerifyError, ResourceError, Task
from draftverify_plan.relaxation import Relaxation

if TYPE_CHECKING:
    from unified_planning.model import FNode, Problem
    from unified_planning.plans import ActionInstance


Reason: TypeAlias = Literal[
    "not parsable", "unknown action", "wrong arguments", "unmet precondition", "conflicting effects"
]
"""Why a step is refused; a closed list, to count by."""

LONGEST_STEP = 1000
"""Characters; a longer text is no step."""

# unified-planning interns expressions in one table per process, which two threads must not write at once. (An
# environment per problem would part the tables, but its grounder, as of 1.3, builds in the global one.)
_ONE_AT_A_TIME = threading.RLock()

_INPUT = "planning_problem"
_SCRATCH = "plan.problem"
_STATES = "plan.states"


class PddlError(DraftVerifyError):
    """A domain or problem that cannot be read, or asks for more than sequential planning."""


class StepError(DraftVerifyError):
    """A step that cannot be taken: the fixed reason, and in words what a drafter could use."""

    def __init__(self, reason: Reason, feedback: str) -> None:
        super().__init__(feedback)
        self.reason: Reason = reason
        self.feedback = feedback


class PlanState:
    """One state of a problem: unified-planning's values, and the relaxation's facts once they were asked for."""

    __slots__ = ("facts", "values")

    def __init__(self, values: Any) -> None:
        self.values = values
        self.facts: frozenset[int] | None = None


class PlanningProblem:
    """One parsed problem and its simulator; equal to another of equal text.

    Args:
        problem: unified-planning's.
    """

    def __init__(self, problem: Problem) -> None:
        from unified_planning.engines.sequential_simulator import UPSequentialSimulator

        self.problem = problem
        self._simulator = UPSequentialSimulator(problem)
        self.start = PlanState(self._simulator.get_initial_state())
        self._actions = {action.name: action for action in problem.actions}
        self._objects = {entity.name: entity for entity in problem.all_objects}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanningProblem) and bool(self.problem == other.problem)

    def __hash__(self) -> int:
        return hash(self.problem)

    @cached_property
    def relaxation(self) -> Relaxation:
        """The problem without what its actions delete, for drafters."""
        with _ONE_AT_A_TIME:
            return Relaxation(self.problem)

    def parse(self, step: object) -> ActionInstance:
        """The action that a text names.

        Raises:
            StepError: "not parsable", "unknown action" or "wrong arguments".
        """
        from unified_planning.plans import ActionInstance

        if not isinstance(step, str) or len(step) > LONGEST_STEP or not step.isprintable():
            raise StepError("not parsable", "a step is one line of text: an action's name and its arguments")
        text = step.strip()
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1]
        # PDDL does not tell upper from lower case.
        name, *arguments = text.lower().split() or [""]
        action = self._actions.get(name)
        if action is None:
            names = ", ".join(sorted(self._actions))
            raise StepError("unknown action", f"{name!r} is no action of this domain; there are {names}")
        signature = [f"{parameter.name} - {_type_name(parameter.type)}" for parameter in action.parameters]
        if len(arguments) != len(signature):
            raise StepError(
                "wrong arguments",
                f"{name} takes {len(signature)} arguments ({', '.join(signature)}), not {len(arguments)}",
            )
        bound = []
        for argument, parameter, want in zip(arguments, action.parameters, signature, strict=True):
            value = self._objects.get(argument)
            if value is None:
                raise StepError("wrong arguments", f"there is no object {argument!r} in this problem")
            if not parameter.type.is_compatible(value.type):
                raise StepError("wrong arguments", f"{name} takes {want} where {argument!r} stands")
            bound.append(value)
        return ActionInstance(action, tuple(bound))

    def step(self, state: PlanState, step: object) -> PlanState:
        """The state after a step.

        Raises:
            StepError: the text names no action, or the action cannot be applied in `state`.
        """
        from unified_planning.exceptions import UPConflictingEffectsException, UPInvalidActionError

        instance = self.parse(step)
        try:
            with _ONE_AT_A_TIME:
                unmet, _ = self._simulator.get_unsatisfied_conditions(state.values, instance)
                if not unmet:
                    return PlanState(self._simulator.apply_unsafe(state.values, instance))
        except UPConflictingEffectsException as error:
            raise StepError(
                "conflicting effects", f"{step_text(instance)} contradicts itself: {error}"
            ) from error
        except UPInvalidActionError:
            # A condition that nothing can change is false, and the simulator says no more than that.
            unmet = self._unmet(state, instance)
        conditions = ", ".join(str(condition) for condition in unmet)
        raise StepError("unmet precondition", f"{step_text(instance)} needs {conditions}")

    def _unmet(self, state: PlanState, instance: ActionInstance) -> list[FNode]:
        from unified_planning.model.walkers import StateEvaluator

        binding = dict(zip(instance.action.parameters, instance.actual_parameters, strict=True))
        with _ONE_AT_A_TIME:
            evaluator = StateEvaluator(self.problem)
            conditions = [condition.substitute(binding) for condition in instance.action.preconditions]
            return [need for need in conditions if not evaluator.evaluate(need, state.values).is_true()]

    def is_goal(self, state: PlanState) -> bool:
        """Whether the goal holds."""
        with _ONE_AT_A_TIME:
            return bool(self._simulator.is_goal(state.values))

    def facts(self, state: PlanState) -> frozenset[int]:
        """The relaxation's facts that hold in `state`, by number."""
        if state.facts is None:
            facts = self.relaxation.facts
            with _ONE_AT_A_TIME:
                values = [state.values.get_value(fact) for fact in facts]
            state.facts = frozenset(number for number, value in enumerate(values) if value.is_true())
        return state.facts

    def states(self, steps: Sequence[Any], scratch: dict[Any, Any]) -> list[PlanState]:
        """The state before each step of a plan and after its last: len(steps) + 1 of them.

        Args:
            steps: from the initial state; each was accepted, so each can be taken.
            scratch: where the states of the last call may still be; only what is new is simulated.

        Raises:
            PddlError: a step cannot be taken after all (it was accepted without the validator).
        """
        cached: tuple[tuple[Any, ...], list[PlanState]] = scratch.get(_STATES, ((), [self.start]))
        shared = 0
        while shared < min(len(cached[0]), len(steps)) and cached[0][shared] == steps[shared]:
            shared += 1
        states = cached[1][: shared + 1]
        for place in range(shared, len(steps)):
            try:
                states.append(self.step(states[-1], steps[place]))
            except StepError as error:
                raise PddlError(f"step {place + 1} of the accepted plan cannot be taken: {error}") from error
        scratch[_STATES] = (tuple(steps), states)
        return states


def read_problem(domain: str, problem: str) -> PlanningProblem:
    """Parse a domain and a problem, the texts of two PDDL files.

    Raises:
        PddlError: a text is not PDDL, or not a sequential planning problem.
        ModuleNotFoundError: unified-planning is not installed.
    """
    from unified_planning.io import PDDLReader

    for name, text in (("domain", domain), ("problem", problem)):
        if "(" not in text:
            raise PddlError(f"the {name} is no PDDL but {text!r:.80}; the text of a file is needed")
    try:
        with _ONE_AT_A_TIME:
            return PlanningProblem(PDDLReader().parse_problem_string(domain, problem))
    # A reader of hostile files raises whatever it trips over, down to AssertionError and RecursionError.
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        raise PddlError(f"the problem cannot be read: {message}") from error


def need_planning() -> None:
    """Refuse early and clearly when unified-planning is not installed.

    Raises:
        ResourceError: naming the extra that brings it.
    """
    if importlib.util.find_spec("unified_planning") is None:
        raise ResourceError("reading PDDL needs unified-planning; install draftverify with the extra 'plan'")


def prepared(task: Task) -> Task:
    """The task with its problem parsed into the input.

    Raises:
        PddlError: the input names no domain and problem, or they cannot be read.
    """
    return msgspec.structs.replace(task, input={**task.input, _INPUT: _read_input(task.input)})


def problem_of(context: Context) -> PlanningProblem:
    """The task's problem: as prepared by the verifier, or parsed here and kept in scratch.

    Raises:
        PddlError: it cannot be read.
    """
    parsed = context.task.input.get(_INPUT) or context.scratch.get(_SCRATCH)
    if parsed is None:
        parsed = context.scratch[_SCRATCH] = _read_input(context.task.input)
    problem: PlanningProblem = parsed
    return problem


def _read_input(fields: Mapping[str, Any]) -> PlanningProblem:
    missing = [key for key in ("domain", "problem") if not isinstance(fields.get(key), str)]
    if missing:
        raise PddlError(
            f"the task's input lacks {' and '.join(missing)}, the text of a PDDL file; "
            "`use: plan.pddl` makes such tasks"
        )
    return read_problem(fields["domain"], fields["problem"])


def step_text(instance: ActionInstance) -> str:
    """The step as text."""
    return " ".join([instance.action.name, *(str(value) for value in instance.actual_parameters)])


def _type_name(type: Any) -> str:
    return str(type).split(" ")[0]
