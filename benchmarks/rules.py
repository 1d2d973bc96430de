"""What each rule on samples costs beside a lean decision of the same block, written by hand for that one case.

    python -m benchmarks.rules [--vocabulary 32768,131072] [--gamma 8] [--arrays numpy,torch] [--repeats 31]
        [--rules speculative,tree] [--out benchmarks/results/rules.json]
    python -m benchmarks.rules --show benchmarks/results/rules.json          # the docs' table, nothing is run

A rival is a plain function of one block's arrays: no batch, no checks, no error messages, and it stops as early as
the law lets it. It decides by the same law with the same random numbers, which are handed to it ready made, and it is
held to that: a block on which rule and rival differ ends the benchmark. The rule is called as a session calls it,
`decide` with values of the library. Rows are float32, of a draft and a target of one taste.

Rule and rival take turns on the same blocks, in random order within each turn. A ratio is that of a turn's two times;
its median over the turns is shown, with a 95 % interval for it by order statistics. Times are the processor's, of one
thread, so that another process on the machine counts for little.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.provenance import write
from draftverify import Draws, Evidence, Proposal, Verification
from draftverify.rules import (
    BlockVerification,
    Cascade,
    Ensemble,
    GreedyMatch,
    KSeq,
    Lenience,
    Lossy,
    Speculative,
    TokenMatch,
    Tree,
    Typical,
)
from draftverify.values import Law, LawKind

BOUND = {True: 3.0, False: 4.0}
"""A rule may cost so many times its rival: one that is exact, and one that is not."""
NAMES = {
    **{kind: f"`cascade` {kind}" for kind in ("chow", "diff", "opt", "token_v1", "token_v2", "token_v3")},
    "tree": "`tree`, without replacement",
    "tree, given": "`tree`, given",
}
"""Of cases whose name is not the rule's in YAML."""


class Block(NamedTuple):
    """What is decided on: p [γ + 1, V], a row of q per parent, γ items after their parents, and random numbers."""

    p: Any
    q: Any
    p_max: Any
    q_max: Any
    items: list[int]
    parents: tuple[int, ...]
    u: list[float]
    v: float
    xp: Any
    """numpy or torch: the rivals use names that both have."""


Decided = tuple[list[int], int]
"""The items that are kept, and the splice."""

Rival = Callable[[Block], Decided]


# The rivals


def draw(b: Block, weights: Any, v: float) -> int:
    """An index, by inverting the running sum."""
    cumulative = b.xp.cumsum(weights, 0, dtype=b.xp.float64)
    return int(b.xp.searchsorted(cumulative, v * cumulative[-1], side="right"))


def rest_of_p(b: Block, i: int) -> Any:
    """(p − q)₊ at a position."""
    return b.xp.clip(b.p[i] - b.q[i], min=0)


def positionwise(b: Block, accept: Callable[[Block, int, int], Any], rest: Any = rest_of_p) -> Decided:
    """Accept while u·q(x) < a(x); draw from what is left at the first that is not, from p after the last."""
    for i, x in enumerate(b.items):
        if not b.u[i] * b.q[i, x] < accept(b, i, x):
            return list(range(i)), draw(b, rest(b, i), b.v)
    n = len(b.items)
    return list(range(n)), draw(b, b.p[n], b.v)


def speculative(b: Block) -> Decided:
    return positionwise(b, lambda b, i, x: b.p[i, x])


def lenience(b: Block) -> Decided:
    return positionwise(b, lambda b, i, x: b.p[i, x] / 0.5)


def ensemble(b: Block) -> Decided:
    """(π − q)₊ = w·(p − q)₊."""
    return positionwise(b, lambda b, i, x: 0.6 * b.p[i, x] + 0.4 * b.q[i, x])


def lossy(b: Block) -> Decided:
    return positionwise(b, lambda b, i, x: b.p[i, x] / 0.7, lossy_rest)


def lossy_rest(b: Block, i: int) -> Any:
    """(s·p − q)₊ with the s that makes its mass 1 − Σ min(q, p/(1 − α)), by Newton's method from above."""
    p, q, xp = b.p[i], b.q[i], b.xp
    left, s = 1 - xp.minimum(q, p / 0.7).sum(), float("inf")
    above = p > 0
    while True:
        better = float((left + (q * above).sum()) / (p * above).sum())
        if not better < s:
            return xp.clip(s * p - q, min=0)
        s = better
        above = s * p > q


def cascade(kind: str, alpha: float) -> Rival:
    def sure(b: Block, i: int) -> bool:
        if kind == "chow":
            return bool(b.q_max[i] >= 1 - alpha)
        apart = b.xp.clip(b.q[i] - b.p[i], min=0).sum() if kind == "opt" else 1
        return bool(b.q_max[i] >= b.p_max[i] - alpha * apart)

    return lambda b: positionwise(b, lambda b, i, x: (b.q if sure(b, i) else b.p)[i, x])


def token_wise(kind: str, alpha: float) -> Rival:
    def law(b: Block, i: int) -> tuple[Any, Any]:
        """q·a, and what of the mass is p's."""
        top = b.p[i].max()
        level = (1 - alpha) * top if kind == "token_v3" else top - alpha
        kept = b.q[i] * ((b.q if kind == "token_v1" else b.p)[i] >= level)
        return kept, 1 - kept.sum()

    def accept(b: Block, i: int, x: int) -> Any:
        kept, rest = law(b, i)
        return kept[x] + rest * b.p[i, x]

    def residual(b: Block, i: int) -> Any:
        kept, rest = law(b, i)
        return b.xp.clip(kept + rest * b.p[i] - b.q[i], min=0)

    return lambda b: positionwise(b, accept, residual)


def greedy_match(b: Block) -> Decided:
    wanted = b.p.argmax(-1).tolist()
    kept = 0
    while kept < len(b.items) and b.items[kept] == wanted[kept]:
        kept += 1
    return list(range(kept)), wanted[kept]


def token_match(b: Block) -> Decided:
    for i, x in enumerate(b.items):
        wanted = draw(b, b.p[i], b.u[i])
        if wanted != x:
            return list(range(i)), wanted
    n = len(b.items)
    return list(range(n)), draw(b, b.p[n], b.u[n])


def block_verification(b: Block) -> Decided:
    """From the end: the first prefix that is accepted is the longest. h is at most its weight, so most need no sum."""
    n, weights = len(b.items), [1.0]
    for i, x in enumerate(b.items):
        weights.append(min(1.0, weights[-1] * float(b.p[i, x]) / float(b.q[i, x])))
    if b.u[n - 1] < weights[n]:
        return list(range(n)), draw(b, b.p[n], b.v)
    for kept in range(n - 1, 0, -1):
        w = weights[kept]
        if b.u[kept - 1] < w:
            rest = b.xp.clip(w * b.p[kept] - b.q[kept], min=0)
            s = rest.sum()
            if b.u[kept - 1] * (s + (1 - w)) < s:
                return list(range(kept)), draw(b, rest, b.v)
    return [], draw(b, rest_of_p(b, 0), b.v)


def walk(b: Block, siblings: Callable[..., tuple[int | None, Any]]) -> Decided:
    """Down from the context, while one of the children of a node is accepted."""
    path: list[int] = []
    while children := [i for i, parent in enumerate(b.parents) if parent == (path[-1] if path else -1)]:
        row = path[-1] + 1 if path else 0
        taken, rest = siblings(b, row, [b.items[i] for i in children], [b.u[i] for i in children])
        if taken is None:
            return path, draw(b, rest, b.v)
        path.append(children[taken])
    return path, draw(b, b.p[path[-1] + 1], b.v)


def without_replacement(b: Block, row: int, items: list[int], u: list[float]) -> tuple[int | None, Any]:
    """Accept with p(x)/q(x), else p ← norm((p − q)₊) and q(x) ← 0."""
    p, q, of_p, of_q = b.p[row], b.xp.asarray(b.q[row], copy=True), 1.0, 1.0
    for j, x in enumerate(items):
        if u[j] * float(q[x]) * of_p < float(p[x]) * of_q:
            return j, None
        p = b.xp.clip(p - (of_p / of_q) * q, min=0)
        q[x] = 0
        of_p, of_q = float(p.sum()), float(q.sum())
    return None, p


def given(b: Block, row: int, items: list[int], u: list[float]) -> tuple[int | None, Any]:
    """Accept with p(x) among what is left of p, else strike x from p."""
    p, left = b.p[row], 1.0
    for j, x in enumerate(items):
        if u[j] * left < float(p[x]):
            return j, None
        left -= float(p[x])
    p = b.xp.asarray(p, copy=True)
    p[items] = 0
    return None, p


def independent(b: Block, row: int, items: list[int], u: list[float]) -> tuple[int | None, Any]:
    """ρ by 20 bisections, as the rule has it; then accept with p(x)/(ρ·q(x))."""
    p, q, k, xp = b.p[row], b.q[row], len(items), b.xp
    low, high = 1.0, float(k)
    for _ in range(20 if k > 1 else 0):
        rho = (low + high) / 2
        beta = float(xp.minimum(p / rho, q).sum())
        low, high = (low, rho) if rho * beta >= 1 - (1 - beta) ** k else (rho, high)
    for j, x in enumerate(items):
        if u[j] * high * float(q[x]) < float(p[x]):
            return j, None
    kept = xp.minimum(q, p / high)
    beta = float(kept.sum())
    return None, xp.clip(p - kept * ((1 - (1 - beta) ** k) / beta), min=0)


def typical(b: Block) -> Decided:
    """Keeps while p(x) > min(ε, √ε·e^{−H}), and splices the argmax."""
    xp, kept = b.xp, 0
    least = xp.finfo(b.p.dtype).tiny
    for i, x in enumerate(b.items):
        entropy = -float((b.p[i] * xp.log(xp.clip(b.p[i], min=least))).sum())
        if not b.p[i, x] > min(0.09, 0.3 * math.exp(-entropy)):
            break
        kept += 1
    return list(range(kept)), int(b.p[kept].argmax())


class Case(NamedTuple):
    """A rule, its rival, and where the items of its blocks come from."""

    name: str
    rule: Any
    rival: Rival
    law: LawKind = "iid"


CASES = [
    Case("speculative", Speculative(), speculative),
    Case("block_verification", BlockVerification(), block_verification),
    Case("token_match", TokenMatch(), token_match),
    Case("greedy_match", GreedyMatch(), greedy_match, "given"),
    Case("lenience", Lenience(0.5), lenience),
    Case("lossy", Lossy(0.3), lossy),
    Case("ensemble", Ensemble(0.6), ensemble),
    Case("chow", Cascade("chow", 0.6), cascade("chow", 0.6)),
    Case("diff", Cascade("diff", 0.05), cascade("diff", 0.05)),
    Case("opt", Cascade("opt", 0.3), cascade("opt", 0.3)),
    *(Case(kind, Cascade(kind, 0.1), token_wise(kind, 0.1)) for kind in ("token_v1", "token_v2", "token_v3")),
    Case("typical", Typical(), typical),
    Case("tree", Tree(), lambda b: walk(b, without_replacement), "without_replacement"),
    Case("tree, given", Tree(), lambda b: walk(b, given), "given"),
    Case("k_seq", KSeq(), lambda b: walk(b, independent)),
]
TREES = {"tree", "tree, given", "k_seq"}


def a_block(case: Case, gamma: int, size: int, seed: int, xp: Any) -> Block:
    """A chain, or a tree of γ/2 siblings of one child each, drawn as the case says; p and q of one taste."""
    rng = np.random.default_rng(seed)
    half = gamma // 2
    parents = (-1,) * half + tuple(range(gamma - half)) if case.name in TREES else tuple(range(-1, gamma - 1))
    taste = 3 * rng.standard_normal((gamma + 1, size), dtype=np.float32)
    for row in taste:  # a few tokens have most of the mass, as a language model's have
        row[rng.choice(size, 3, replace=False)] = np.log(np.exp(row).sum()) + np.asarray([0.5, -0.5, -1.5])
    p, q = softmax(taste), softmax(taste[:gamma] + 0.6 * rng.standard_normal((gamma, size), dtype=np.float32))
    items: list[int] = []
    for i, parent in enumerate(parents):
        row = q[parent + 1].astype(np.float64)
        if case.law == "given":
            row = p[i]  # likely ones, so that some are kept
        elif case.law == "without_replacement":
            row[[items[j] for j in range(i) if parents[j] == parent]] = 0
        items.append(
            int(row.argmax())
            if case.name == "greedy_match" and i != seed % (2 * gamma)
            else draw_one(row, rng)
        )
    rng_of_rule = Draws((seed, size), 0)
    u, v = rng_of_rule.uniforms(range(gamma + 1)), rng_of_rule.uniform(0, 1)
    as_array = xp.asarray
    return Block(as_array(p), as_array(q), as_array(p.max(-1)), as_array(q.max(-1)), items, parents, u, v, xp)


def softmax(logits: Any) -> Any:
    made = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return made / made.sum(axis=-1, keepdims=True)


def draw_one(row: Any, rng: Any) -> int:
    return int(np.searchsorted(np.cumsum(row, dtype=np.float64), rng.random() * row.sum(dtype=np.float64)))


def as_the_rule_gets_it(case: Case, b: Block, seed: int) -> tuple[Any, ...]:
    """The arguments of `decide`."""
    law = Law("given") if case.law == "given" else Law(case.law, b.q, b.q_max)
    proposal = Proposal.tree(b.items, b.parents, law)
    return (
        None,
        proposal,
        Verification(evidence=Evidence(target=b.p, raw_maxima=b.p_max)),
        Draws((seed, b.p.shape[-1]), 0),
    )


def compare(case: Case, options: argparse.Namespace, size: int, xp: Any) -> dict[str, Any]:
    """Times of rule and rival, turn about, on the same blocks."""
    blocks = [a_block(case, options.gamma, size, seed, xp) for seed in range(options.blocks)]
    arguments = [as_the_rule_gets_it(case, b, seed) for seed, b in enumerate(blocks)]
    kept, ratios, times, order = [], [], {"rule": [], "rival": []}, random.Random(0)
    for turn in range(-2, options.repeats):
        spent = {"rule": 0.0, "rival": 0.0}
        for b, given_to_rule in zip(blocks, arguments, strict=True):
            answers = {}
            for who in order.sample(["rule", "rival"], 2):
                start = thread_time()
                answers[who] = case.rule.decide(*given_to_rule) if who == "rule" else case.rival(b)
                spent[who] += thread_time() - start
            made, (wanted, splice) = answers["rule"], answers["rival"]
            if (list(made.kept), made.spliced) != (wanted, (splice,)):
                raise SystemExit(f"{case.name}: the rule decided {made}, its rival {(wanted, splice)}")
            kept.append(len(made.kept))
        if turn >= 0:
            ratios.append(spent["rule"] / spent["rival"])
            for who in spent:
                times[who].append(1e6 * spent[who] / len(blocks))
    low, high = interval(ratios)
    return {
        "rule": case.name,
        "exact": bool(case.rule.traits.exact),
        "vocabulary": size,
        "array": xp.__name__,
        "kept": statistics.mean(kept),
        "microseconds": statistics.median(times["rule"]),
        "microseconds of the rival": statistics.median(times["rival"]),
        "ratio": statistics.median(ratios),
        "interval": [low, high],
        "within": statistics.median(ratios) <= BOUND[bool(case.rule.traits.exact)],
    }


def interval(values: list[float]) -> tuple[float, float]:
    """Order statistics between which the median lies with 95 % probability or more."""
    ordered, n = sorted(values), len(values)
    tail, low = 0.5**n, 0
    while tail + math.comb(n, low + 1) * 0.5**n <= 0.025:
        low += 1
        tail += math.comb(n, low) * 0.5**n
    return ordered[low], ordered[-1 - low]


def shown(found: dict[str, Any]) -> str:
    """The table in benchmarks/README.md."""
    columns = {(row["array"], row["vocabulary"]): None for row in found["rules"]}
    rows: dict[str, dict[tuple[str, int], str]] = {}
    for row in found["rules"]:
        low, high = row["interval"]
        cell = f"{row['ratio']:.2f} [{low:.2f}, {high:.2f}]"
        rows.setdefault(row["rule"], {})[row["array"], row["vocabulary"]] = cell
    heads = [f"{array}, V = {size // 1024}k" for array, size in sorted(columns)]
    lines = [f"| rule | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name, cells in rows.items():
        lines.append(
            f"| {NAMES.get(name, f'`{name}`')} | {' | '.join(cells[at] for at in sorted(columns))} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vocabulary", default="32768,131072")
    parser.add_argument("--gamma", type=int, default=8)
    parser.add_argument("--arrays", default="numpy,torch")
    parser.add_argument("--blocks", type=int, default=12, help="different blocks in a turn")
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--rules", default="", help="some of the rules, by name")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/rules.json"))
    parser.add_argument("--show", type=Path, help="print the docs' table of these results and run nothing")
    options = parser.parse_args()
    if options.show is not None:
        print(shown(json.loads(options.show.read_text())))
        return
    if "torch" in options.arrays:
        importlib.import_module("torch").set_num_threads(1)
    wanted, rows = set(filter(None, options.rules.split(","))), []
    for case in CASES:
        if wanted and case.name not in wanted:
            continue
        for size in map(int, options.vocabulary.split(",")):
            for library in options.arrays.split(","):
                row = compare(case, options, size, importlib.import_module(library))
                low, high = row["interval"]
                print(
                    f"{row['rule']:20s} {size:7d} {library:6s} kept {row['kept']:.1f}  {row['microseconds']:8.0f} µs "
                    f"beside {row['microseconds of the rival']:8.0f}  {row['ratio']:.2f} [{low:.2f}, {high:.2f}]"
                    + ("" if row["within"] else "  above the bound"),
                    flush=True,
                )
                rows.append(row)
    settings = {
        "gamma": options.gamma,
        "blocks": options.blocks,
        "repeats": options.repeats,
        "dtype": "float32",
    }
    write(
        options.out,
        "benchmarks.rules",
        {**settings, "bound": {"exact": BOUND[True], "lossy": BOUND[False]}, "rules": rows},
    )


if __name__ == "__main__":
    main()
