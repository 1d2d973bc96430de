"""The delete relaxation of a planning problem: what could be reached if nothing ever became false.

A plan in it is found in polynomial time and reads like a plan, but steps undo each other when they are really
taken, so it is a draft and not an answer. Conditions that are not positive facts (negations, quantifiers, numbers)
are ignored as well, and conditional effects are taken to happen. Facts and actions are numbered in the order in
which the problem lists them, and every choice between equals goes to the lower number, so a draft is reproducible.

Source: relaxed plans as in FF (Hoffmann and Nebel, 2001), supporters chosen by the additive heuristic
(Bonet and Geffner, 2001).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from unified_planning.model import FNode, Problem


class GroundAction(msgspec.Struct, frozen=True):
    """An action with its arguments: the step as text, and the facts it needs and adds, by number."""

    step: str
    needs: tuple[int, ...]
    adds: tuple[int, ...]


class Relaxation:
    """A grounded problem without deletes.

    Args:
        problem: unified-planning's; its fluents may be of any kind, the boolean ones are read.
    """

    def __init__(self, problem: Problem) -> None:
        # PDDL lists what is true; everything else is false.
        initial = problem.explicit_initial_values
        true = {_name(fact, {}) for fact, value in initial.items() if _is_fact(fact) and value.is_true()}
        numbers: dict[_Fact, int] = {}
        goal = [_name(fact, {}) for condition in problem.goals for fact in _positive(condition)]
        grounded = [ground for action in problem.actions for ground in _ground(problem, action, true)]
        grounded = _reachable(grounded, true)
        for fact in goal:
            numbers.setdefault(fact, len(numbers))
        for _, needs, adds in grounded:
            for fact in (*needs, *adds):
                numbers.setdefault(fact, len(numbers))
        fluents = {fluent.name: fluent for fluent in problem.fluents}
        objects = {entity.name: entity for entity in problem.all_objects}
        self.facts: list[FNode] = [fluents[name](*(objects[arg] for arg in args)) for name, *args in numbers]
        self.goal = tuple(dict.fromkeys(numbers[fact] for fact in goal))
        self.actions = [
            GroundAction(step, tuple(numbers[fact] for fact in needs), tuple(numbers[fact] for fact in adds))
            for step, needs, adds in grounded
        ]
        self.number_of = {action.step: number for number, action in enumerate(self.actions)}
        self._users: list[list[int]] = [[] for _ in self.facts]
        for number, action in enumerate(self.actions):
            for need in action.needs:
                self._users[need].append(number)

    def plan(self, state: Collection[int], avoid: Collection[int] = ()) -> list[int] | None:
        """A relaxed plan from `state`: the actions in an order in which each is supported by those before.

        Args:
            state: the facts that hold, by number.
            avoid: actions to use only where nothing else leads to the goal.

        Returns:
            Numbers of actions, each once; [] when the goal holds; None when not even the relaxation reaches it.
        """
        cost, supporter = self._costs(state, avoid)
        if any(cost[fact] is None for fact in self.goal):
            return None
        plan: list[int] = []
        chosen: set[int] = set()
        # Goal by goal, nearest first and depth first: fetch one thing and bring it, then the next. Layer by layer
        # all fetching would come first, and real actions would refuse it sooner.
        stack = [(fact, False) for fact in sorted(self.goal, key=lambda fact: cost[fact] or 0, reverse=True)]
        while stack:
            fact, expanded = stack.pop()
            action = supporter[fact]
            if action < 0 or action in chosen:
                continue
            if expanded:
                chosen.add(action)
                plan.append(action)
                continue
            stack.append((fact, True))
            needs = self.actions[action].needs
            stack.extend((need, False) for need in sorted(needs, key=lambda fact: cost[fact] or 0))
        return plan

    def _costs(self, state: Collection[int], avoid: Collection[int]) -> tuple[list[int | None], list[int]]:
        """For each fact the additive cost from `state` and the action that supports it best (-1 for none)."""
        cost: list[int | None] = [None] * len(self.facts)
        supporter = [-1] * len(self.facts)
        waiting = [len(action.needs) for action in self.actions]
        summed = [0] * len(self.actions)
        avoid = frozenset(avoid)
        queue: list[tuple[int, int, int]] = [(0, -1, fact) for fact in sorted(state)]
        for number, action in enumerate(self.actions):
            if not action.needs:
                queue.extend((1, number, fact) for fact in action.adds)
        heapq.heapify(queue)
        while queue:
            price, by, fact = heapq.heappop(queue)
            if cost[fact] is not None:
                continue
            cost[fact] = price
            supporter[fact] = by
            for number in self._users[fact]:
                waiting[number] -= 1
                summed[number] += price
                if waiting[number] == 0:
                    total = summed[number] + 1 + (_DEAR if number in avoid else 0)
                    for added in self.actions[number].adds:
                        if cost[added] is None:
                            heapq.heappush(queue, (total, number, added))
        return cost, supporter


_DEAR = 1000
"""What an action to avoid costs beside the one of any other."""

_Fact: TypeAlias = "tuple[str, ...]"
"""A fluent's name and its objects' names; cheaper to make and to look up than unified-planning's expressions."""

_Ground: TypeAlias = "tuple[str, tuple[_Fact, ...], tuple[_Fact, ...]]"
"""A step's text, what it needs, what it adds."""


def _ground(problem: Problem, action: Any, true: Collection[_Fact]) -> Iterator[_Ground]:
    """Every binding of the action's parameters whose unchanging conditions hold."""
    changed = {effect.fluent.fluent() for any_action in problem.actions for effect in any_action.effects}
    parameters = [parameter.name for parameter in action.parameters]
    needs = [fact for condition in action.preconditions for fact in _positive(condition)]
    adds = [effect.fluent for effect in action.effects if _adds(effect)]
    # A static condition is tested as soon as the last of its parameters is bound.
    tests: list[list[FNode]] = [[] for _ in range(len(parameters) + 1)]
    for fact in needs:
        if fact.fluent() not in changed:
            places = [parameters.index(arg.parameter().name) for arg in fact.args if arg.is_parameter_exp()]
            tests[max(places, default=-1) + 1].append(fact)
    needs = [fact for fact in needs if fact.fluent() in changed]
    values = [[entity.name for entity in problem.objects(parameter.type)] for parameter in action.parameters]
    binding: dict[str, str] = {}

    def extend(depth: int) -> Iterator[_Ground]:
        if any(_name(fact, binding) not in true for fact in tests[depth]):
            return
        if depth == len(parameters):
            yield (
                " ".join([action.name, *(binding[name] for name in parameters)]),
                tuple(dict.fromkeys(_name(fact, binding) for fact in needs)),
                tuple(dict.fromkeys(_name(fact, binding) for fact in adds)),
            )
            return
        for value in values[depth]:
            binding[parameters[depth]] = value
            yield from extend(depth + 1)

    return extend(0)


def _reachable(actions: list[_Ground], true: Collection[_Fact]) -> list[_Ground]:
    """The actions that the relaxation can ever take, in their order."""
    reached, usable = set(true), [False] * len(actions)
    growing = True
    while growing:
        growing = False
        for place, (_, needs, adds) in enumerate(actions):
            if not usable[place] and reached.issuperset(needs):
                growing = usable[place] = True
                reached.update(adds)
    return [action for action, possible in zip(actions, usable, strict=True) if possible]


def _name(fact: FNode, binding: Mapping[str, str]) -> _Fact:
    args = (
        binding[arg.parameter().name] if arg.is_parameter_exp() else arg.object().name for arg in fact.args
    )
    return (fact.fluent().name, *args)


def _positive(condition: FNode) -> Iterator[FNode]:
    """The positive facts of a conjunction; whatever else stands in it is ignored."""
    if condition.is_and():
        for part in condition.args:
            yield from _positive(part)
    elif _is_fact(condition):
        yield condition


def _adds(effect: Any) -> bool:
    return _is_fact(effect.fluent) and not effect.is_forall() and not effect.value.is_false()


def _is_fact(fluent: FNode) -> bool:
    """Whether it is a boolean fluent of parameters and objects, and not, say, of another fluent's value."""
    return (
        fluent.is_fluent_exp()
        and fluent.fluent().type.is_bool_type()
        and all(arg.is_parameter_exp() or arg.is_object_exp() for arg in fluent.args)
    )
