"""The planner's own process: reads requests as lines of JSON, answers each with a plan, None, or what went wrong."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from draftverify_plan.problem import PlanningProblem, read_problem, step_text


def main() -> None:
    """Serve until the other end closes."""
    # Planners print what they like; the answers go to a descriptor of their own.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        import unified_planning.shortcuts as up

        up.get_environment().credits_stream = None
        out.write("ready\n")
        out.flush()
        read: dict[tuple[str, str], PlanningProblem] = {}
        for line in sys.stdin:
            answer: dict[str, Any]
            try:
                answer = {"plan": _plan(json.loads(line), read)}
            # Whatever a planner trips over is its caller's to hear of.
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(answer) + "\n")
            out.flush()


def _plan(request: dict[str, Any], read: dict[tuple[str, str], PlanningProblem]) -> list[str] | None:
    from unified_planning.engines import CompilationKind
    from unified_planning.shortcuts import Compiler, OneshotPlanner

    texts = request["domain"], request["problem"]
    if texts not in read:
        read.clear()
        read[texts] = read_problem(*texts)
    problem = _from(read[texts], request["steps"])
    with OneshotPlanner(name=request["engine"]) as planner:
        back = None
        if not planner.supports(problem.kind) and problem.kind.has_negative_conditions():
            # STRIPS planners know no negation; a fact that says the opposite stands in for it.
            kind = CompilationKind.NEGATIVE_CONDITIONS_REMOVING
            with Compiler(problem_kind=problem.kind, compilation_kind=kind) as compiler:
                compiled = compiler.compile(problem, kind)
            problem, back = compiled.problem, compiled.plan_back_conversion
        result = planner.solve(problem)
    if result.plan is None:
        if result.status.name.startswith("UNSOLVABLE"):
            return None
        raise RuntimeError(f"no plan came: {result.status.name}")
    plan = back(result.plan) if back is not None else result.plan
    return [step_text(instance) for instance in plan.actions]


def _from(problem: PlanningProblem, steps: list[str]) -> Any:
    """unified-planning's problem with the state after `steps` as its initial state."""
    if not steps:
        return problem.problem
    state = problem.states(steps, {})[-1].values
    moved = problem.problem.clone()
    for fact in problem.problem.initial_values:
        moved.set_initial_value(fact, state.get_value(fact))
    return moved


if __name__ == "__main__":
    main()
