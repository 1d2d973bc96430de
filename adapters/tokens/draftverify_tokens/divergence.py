"""Where two greedy outputs of one model part, and whether rounding can be the reason.

Matrix products over several rows round otherwise than over one, so two tokens of nearly the same logit can change
places between a block and single steps. A user cannot tell that from a bug; the size of the gap can. It is the gap
under the run's settings: a penalty can bring two tokens near each other, and a grammar leaves many out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftverify import ContractError, Explanation
from draftverify_llm import evaluating
from draftverify_tokens.history import History
from draftverify_tokens.models import TokenModel
from draftverify_tokens.sampling import probabilities, read_settings

# How far rounding moves the gap of two of the likeliest tokens, in units of eps · (largest logit): twice the largest
# movement of one logit that was seen between a block and single steps (benchmarks/README.md, "Tokens"), since two can
# move apart.
UNITS = {16: 6, 32: 20, 64: 20}

CHOICE = ("temperature", "top_k", "top_p", "min_p")
"""Settings that choose among the scores; the others make them."""


def explain(
    model: TokenModel, prompt: list[int], expected: list[int], got: list[int], settings: Mapping[str, Any]
) -> Explanation:
    """Name the first difference of two outputs and judge it by the logits, recomputed in one pass.

    Args:
        model: the model of both.
        prompt: the prompt's token ids.
        expected: one output.
        got: the other.
        settings: under which both were decoded.

    Returns:
        The cause, and in words: the position, both tokens, the two likeliest tokens and their gap. Of sampled outputs,
        which may part anywhere, both tokens and their probabilities; their cause is "unexplained".

    Raises:
        ConfigError: a setting cannot be read.
    """
    import torch

    sampling = read_settings(settings)
    place = next((i for i, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), None)
    if place is None:
        if len(expected) == len(got):
            return Explanation("unexplained", "no difference")
        shorter, longer = (
            ("the second", "the first") if len(got) < len(expected) else ("the first", "the second")
        )
        return Explanation(
            "bug",
            f"no token differs, but {shorter} output ends after {min(len(expected), len(got))} tokens where {longer} "
            f"goes on: bug (they were stopped by different rules)",
        )
    ids = torch.tensor([prompt + expected[:place]], device=model.model.device)
    with torch.inference_mode(), evaluating(model.model.modules()):
        logits = model.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1].to(torch.float64)
        both = f"token {place}: {_shown(model, expected[place])} and {_shown(model, got[place])} differ"
        making = {name: value for name, value in settings.items() if name not in CHOICE}
        histories = [History(prompt, expected[:place])]
        try:
            if sampling.temperature:
                p = probabilities(logits, settings, histories, model=model)[0][0]
                return Explanation(
                    "unexplained",
                    f"{both}, which sampled outputs may: decoding in blocks draws with other random numbers; their "
                    f"probabilities are {float(p[expected[place]]):.3g} and {float(p[got[place]]):.3g}",
                )
            # But for a constant that they share, logarithms of probabilities are the scores that settings make.
            scores = probabilities(logits, making, histories, model=model)[0][0].log()
        except ContractError as error:
            message = f"{both}: bug (what stands before it has no place under the settings: {error})"
            return Explanation("bug", message)
    values, ids = torch.topk(scores, 2)
    largest, gap = float(logits.abs().max()), float(values[0] - values[1])
    apart = float(values[0] - min(scores[expected[place]], scores[got[place]]))
    dtype = torch.finfo(model.model.dtype)
    # A repetition penalty stretches the error of a logit with the logit.
    stretch = max(sampling.repetition_penalty, 1 / sampling.repetition_penalty)
    tolerance = UNITS[dtype.bits] * dtype.eps * largest * stretch
    first, second = (_shown(model, int(id)) for id in ids)
    both = f"{both}; the likeliest two are {first} and {second}, {gap:.3g} apart"
    if apart <= tolerance:
        message = f"{both}: rounding: in {dtype.dtype} it reaches {tolerance:.2g} here"
        return Explanation("rounding", message)
    reach = f"rounding in {dtype.dtype} reaches {tolerance:.2g} here"
    return Explanation("bug", f"{both}: bug: {reach}; one of them lies {apart:.3g} below the top")


def _shown(model: TokenModel, token: int) -> str:
    return f"{model.decode([token])!r} ({token})"
