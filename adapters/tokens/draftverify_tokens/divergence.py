"""Where two greedy outputs of one model part, and whether rounding can be the reason.

Matrix products over several rows round otherwise than over one, so two tokens of nearly the same logit can change
places between a block and single steps. A user cannot tell that from a bug; the size of the gap can.
"""

from __future__ import annotations

from draftverify_tokens.models import TokenModel

__all__ = ["explain"]

# How far rounding moves the gap of two of the likeliest tokens, in units of eps · (largest logit): twice the largest
# movement of one logit that was seen between a block and single steps (docs/tokens.md), since two can move apart.
UNITS = {16: 6, 32: 20, 64: 20}


def explain(model: TokenModel, prompt: list[int], expected: list[int], got: list[int]) -> str:
    """Name the first difference of two outputs and judge it by the logits, recomputed in one pass.

    Args:
        model: the model of both.
        prompt: the prompt's token ids.
        expected: one greedy output.
        got: the other.

    Returns:
        A sentence or two: the position, both tokens, the two likeliest tokens and their gap, and "rounding" or "bug".
    """
    import torch

    same = next((i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), None)
    if same is None:
        if len(expected) == len(got):
            return "no difference"
        shorter, longer = (
            ("the second", "the first") if len(got) < len(expected) else ("the first", "the second")
        )
        return (
            f"no token differs, but {shorter} output ends after {min(len(expected), len(got))} tokens where {longer} "
            f"goes on: bug (they were stopped by different rules)"
        )
    ids = torch.tensor([prompt + expected[:same]], device=model.model.device)
    with torch.inference_mode():
        logits = model.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1].to(torch.float64)
    values, ids = torch.topk(logits, 2)
    largest, gap = float(logits.abs().max()), float(values[0] - values[1])
    apart = float(values[0] - min(logits[expected[same]], logits[got[same]]))
    dtype = torch.finfo(model.model.dtype)
    tolerance = UNITS[dtype.bits] * dtype.eps * largest
    verdict = (
        f"rounding: in {dtype.dtype} it reaches {tolerance:.2g} here"
        if apart <= tolerance
        else f"bug: rounding in {dtype.dtype} reaches {tolerance:.2g} here; one of them lies {apart:.3g} below the top"
    )
    first, second = (_shown(model, int(id)) for id in ids)
    return (
        f"token {same}: {_shown(model, expected[same])} and {_shown(model, got[same])} differ; the likeliest two are "
        f"{first} and {second}, {gap:.3g} apart: {verdict}"
    )


def _shown(model: TokenModel, token: int) -> str:
    return f"{model.decode([token])!r} ({token})"
