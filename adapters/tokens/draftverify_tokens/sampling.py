"""From logits to probabilities under the pipeline's sampling settings: one function, for drafts and target alike.

A drafter whose q went through other settings than the target's p would be exact for nobody, so both call
`probabilities`. What depends on the tokens before a row (penalties, custom processors, the grammar) reads the row's own
path, so a row in a block is what plain decoding makes of the same place. The filters are those of transformers'
`generate`, in its order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any

import numpy as np

from draftverify import ConfigError, ContractError, inverse_cdf
from draftverify_tokens.grammar import Constraint, check_constraint, compiled, forbid
from draftverify_tokens.history import History, upload
from draftverify_tokens.models import TokenModel
from draftverify_tokens.penalties import penalise


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling settings, in the order in which they are applied.

    Args:
        repetition_penalty: a token of the prompt or the answer has its logit divided by it when positive, multiplied
            when not; above 1 discourages, below 1 encourages.
        frequency_penalty: subtracted from a token's logit for every time that the answer holds it, from -2 to 2.
        presence_penalty: subtracted once from the logit of a token that the answer holds, from -2 to 2.
        logit_bias: added to the logits of these token ids.
        min_new_tokens: no end token may come before the answer has so many tokens.
        processors: callables `(input_ids [1, n], scores [1, vocabulary]) -> scores`, as transformers' LogitsProcessor:
            the same scores for the same ids whenever asked. Python only.
        json_schema: the answer is JSON of this schema, a mapping or JSON text.
        regex: the whole answer matches this regular expression (Rust's syntax; no look-around, no back-references).
        grammar: the answer is a text of this Lark grammar.
        temperature: logits are divided by it; 0 takes the likeliest token (the lowest id among equals).
        top_k: keep the k likeliest tokens, and what ties with the last of them; None keeps all.
        top_p: keep the likeliest tokens that hold this probability together, and what ties with the last.
        min_p: keep tokens with at least this fraction of the likeliest one's probability.
    """

    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] | None = None
    min_new_tokens: int = 0
    processors: Sequence[Callable[[Any, Any], Any]] = ()
    json_schema: Mapping[str, Any] | str | None = None
    regex: str | None = None
    grammar: str | None = None
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def penalises(self) -> bool:
        """Whether a token's logit depends on how often it occurred."""
        return self.repetition_penalty != 1 or bool(self.frequency_penalty or self.presence_penalty)

    @property
    def constraint(self) -> Constraint | None:
        """What the answer must be a text of, if anything.

        Raises:
            ConfigError: the schema holds what JSON has not.
        """
        for kind in CONSTRAINTS:
            if (value := getattr(self, kind)) is not None:
                return Constraint(kind, _json(value) if isinstance(value, Mapping) else value)
        return None

    @property
    def reads_paths(self) -> tuple[str, ...]:
        """The settings in use for which the tokens before a row count."""
        return tuple(field for field in _PATH_DEPENDENT if getattr(self, field) != _OFF[field])


CONSTRAINTS = ("json_schema", "regex", "grammar")
SETTINGS = frozenset(field.name for field in fields(Sampling))
"""The names of the settings that decoding reads: `reads` of the parts here."""
_OFF: dict[str, Any] = {field.name: field.default for field in fields(Sampling)}
_PATH_DEPENDENT = (
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "min_new_tokens",
    "processors",
    *CONSTRAINTS,
)
LARGEST = 1e30
SMALLEST = 1e-30
"""In float32 a number much below is 0, under which top_p would keep not even the likeliest token."""
FEW = 512
"""So many of the likeliest tokens hold top_p's mass nearly always, and cost a tenth of a full sort to find."""


def read_settings(settings: Mapping[str, Any]) -> Sampling:
    """Sampling settings from a pipeline's settings; what is not given is off, and temperature is 1.

    Settings of other names are other parts' business: a pipeline refuses those that nobody reads.

    Raises:
        ConfigError: a setting is of the wrong type or out of its range. Whether a schema, a regular expression or a
            grammar is one is `check_settings`'s business.
    """
    settings = own_settings(settings)
    sampling = Sampling(**settings)
    for name, (allowed, range_) in _CHECKS.items():
        if name in settings and not allowed(settings[name]):
            raise ConfigError(f"{name} must be {range_}, not {settings[name]!r:.80}", path=f"settings.{name}")
    if sampling.logit_bias:
        ids = {int(token): bias for token, bias in sampling.logit_bias.items()}
        sampling = replace(sampling, logit_bias=ids)
    constraints = [name for name in CONSTRAINTS if getattr(sampling, name) is not None]
    if len(constraints) > 1:
        raise ConfigError(
            f"{' and '.join(constraints)} are given; an answer follows at most one of them",
            path=f"settings.{constraints[1]}",
        )
    return sampling


def own_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a pipeline's settings that decoding reads."""
    return {name: value for name, value in settings.items() if name in SETTINGS}


def check_settings(settings: Mapping[str, Any], model: TokenModel | None = None) -> None:
    """Refuse settings that cannot be read, and what they ask for that this model cannot do.

    Args:
        settings: the pipeline's.
        model: the target's; without it only what needs no tokenizer is checked, and nothing is loaded.

    Raises:
        ConfigError: a setting is of the wrong type or out of range; a schema, regular expression or grammar
            is none; `logit_bias` names a token that the model does not have; the model's tokenizer or its end tokens
            do not do for a grammar.
        ResourceError: a grammar is asked for and llguidance is not installed.
    """
    sampling = read_settings(settings)
    constraint = sampling.constraint
    if constraint is not None:
        check_constraint(constraint)
    if model is None:
        return
    if sampling.logit_bias:
        vocabulary = model.model.config.get_text_config().vocab_size
        for token in sampling.logit_bias:
            if token >= vocabulary:
                raise ConfigError(
                    f"logit_bias names token {token}; the model's tokens go from 0 to {vocabulary - 1}",
                    path="settings.logit_bias",
                )
    if constraint is not None:
        compiled(constraint, model)


def _number(value: Any) -> bool:
    # Bounded as float32 is, with room for a logit: a number beyond makes every probability of its row nan.
    numbers = (int, float, np.integer, np.floating)
    return isinstance(value, numbers) and not isinstance(value, bool) and bool(-LARGEST <= value <= LARGEST)


def is_whole(value: Any, least: float) -> bool:
    """Whether it is a whole number, of Python's or of NumPy's, and not below the least."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def _bias(value: Any) -> bool:
    # A config file's keys are texts.
    return isinstance(value, Mapping) and all(
        (is_whole(k, 0) or (isinstance(k, str) and k.isdecimal() and len(k) < 20)) and _number(v)
        for k, v in value.items()
    )


def _callables(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(map(callable, value))


def _json(schema: Mapping[str, Any]) -> str:
    try:
        return json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"it is no JSON ({error})", path="settings.json_schema") from None


def _text(value: Any) -> bool:
    return value is None or isinstance(value, str)


_TWO = (lambda v: _number(v) and -2 <= v <= 2, "a number from -2 to 2")
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "repetition_penalty": (lambda v: _number(v) and v > 0, "a number > 0"),
    "frequency_penalty": _TWO,
    "presence_penalty": _TWO,
    "logit_bias": (lambda v: v is None or _bias(v), "a mapping of token ids to numbers of at most 1e30"),
    "min_new_tokens": (lambda v: is_whole(v, 0), "a whole number >= 0"),
    "processors": (_callables, "a list of callables (input_ids, scores) -> scores"),
    "json_schema": (lambda v: _text(v) or isinstance(v, Mapping), "a mapping or JSON text"),
    "regex": (_text, "text"),
    "grammar": (_text, "text"),
    "temperature": (lambda v: _number(v) and (v == 0 or v >= 1e-6), "0 or a number >= 1e-6"),
    "top_k": (lambda v: v is None or is_whole(v, 1), "a whole number >= 1"),
    "top_p": (lambda v: _number(v) and 0 < v <= 1, "a number in (0, 1]"),
    "min_p": (lambda v: _number(v) and 0 <= v <= 1, "a number in [0, 1]"),
}


def probabilities(
    logits: Any,
    settings: Mapping[str, Any],
    histories: Sequence[History] = (),
    *,
    model: TokenModel | None = None,
) -> tuple[Any, Any]:
    """The distribution that the settings make of each row of logits.

    A CUDA device is not waited for, except that a grammar and custom processors must see drafted tokens that lie on it.

    Args:
        logits: [rows, vocabulary], of any floating type; half precision is computed with in float32. Not changed.
        settings: the pipeline's.
        histories: the sessions whose rows these are, one after the other, the wanted rows of each; not looked at when
            no setting depends on the tokens before a row.
        model: whose logits they are; needed under min_new_tokens, json_schema, regex or grammar.

    Returns:
        Probabilities [rows, vocabulary], one-hot at temperature 0, and [rows] the largest probability of each row at
        temperature 1 with no filter (after penalties, bias, processors and grammar), for rules that need it. A row
        from which nothing can be drawn sums to nan: a rule that comes to it refuses it.

    Raises:
        ConfigError: a setting is out of range.
        ContractError: histories or model are missing, or are not of these logits; a processor returned something
            else; an accepted token breaks the grammar; on a CPU also: the logits are not finite, or the settings
            leave no token after the accepted ones.
    """
    import torch

    sampling = read_settings(settings)
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    raw = logits
    if reads := sampling.reads_paths:
        _check_rows(logits, histories, reads)
    if sampling.penalises:
        logits = penalise(
            logits,
            histories,
            repetition=sampling.repetition_penalty,
            frequency=sampling.frequency_penalty,
            presence=sampling.presence_penalty,
        )
    if sampling.logit_bias:
        logits = _biased(logits, sampling.logit_bias)
    constraint = sampling.constraint
    if model is None and (constraint is not None or sampling.min_new_tokens):
        kind = "min_new_tokens" if constraint is None else constraint.kind
        raise ContractError(f"probabilities() needs `model` under settings.{kind}")
    if sampling.min_new_tokens and model is not None:
        logits = _not_ended(logits, histories, sampling.min_new_tokens, model.eos_ids)
    for processor in sampling.processors:
        logits = _processed(logits, processor, histories)
    if constraint is not None and model is not None:
        logits = forbid(logits, compiled(constraint, model), histories)
    probs, raw_maxima = _shaped(logits, sampling)
    if logits.device.type == "cpu" and not math.isfinite(raw_maxima.sum()):  # of numbers up to 1
        _diagnose(raw, raw_maxima, histories)
    return probs, raw_maxima


class Tail:
    """`probabilities`, and perhaps a draw, as the end of a forward pass on a device, in the same launch.

    One object stands for itself: a graph that was captured with it is found by it.

    Args:
        sampling: without settings for which the tokens before a row count, and without logit_bias.
        vocabulary: how many of the logits' columns count.
        drawn: [1] float64 on the device: the uniform that a token of each row is drawn with; it may be changed between
            launches. At temperature 0 the token is the likeliest one.
    """

    def __init__(self, sampling: Sampling, vocabulary: int, drawn: Any = None) -> None:
        self.sampling = sampling
        self.vocabulary = vocabulary
        self.drawn = drawn

    def __call__(self, logits: Any) -> tuple[Any, ...]:
        """Probabilities [rows, vocabulary], raw maxima [rows], and tokens [rows] where they are drawn."""
        import torch

        logits = logits[:, : self.vocabulary]
        if logits.dtype in (torch.bfloat16, torch.float16):
            logits = logits.float()
        rows = _shaped(logits, self.sampling)
        if self.sampling.temperature == 0:
            return *rows, logits.max(dim=-1).indices
        return rows if self.drawn is None else (*rows, inverse_cdf(rows[0], self.drawn.expand(len(logits))))


def _shaped(logits: Any, sampling: Sampling) -> tuple[Any, Any]:
    """What temperature and filters make of rows of logits, and their raw maxima: nan for a row of no use."""
    import torch

    # softmax, since exp and logsumexp take ten times as long on a CPU where logits are -inf.
    probs = torch.softmax(logits, dim=-1)
    raw_maxima = probs.amax(dim=-1)
    if sampling.temperature == 0:
        ones = raw_maxima / raw_maxima  # nan in a row of no use
        likeliest = logits.max(dim=-1, keepdim=True).indices  # a third of argmax's time on a CPU
        return torch.zeros_like(logits).scatter_(-1, likeliest, ones[:, None]), raw_maxima
    changed = logits
    if sampling.temperature != 1:
        changed = changed / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < changed.shape[-1]:
        least = torch.topk(changed, sampling.top_k, dim=-1).values[:, -1:]
        changed = changed.masked_fill(changed < least, -math.inf)
    if changed is not logits:
        probs = torch.softmax(changed, dim=-1)
    if sampling.top_p == 1 and sampling.min_p == 0:
        return probs, raw_maxima
    if sampling.top_p < 1:
        ordered = _likeliest(probs, sampling.top_p, sampling.top_k)
        inside = torch.cumsum(ordered, dim=-1) - ordered < max(sampling.top_p, SMALLEST)
        least = torch.where(inside, ordered, 1.0).amin(dim=-1, keepdim=True)
        probs = torch.where(probs >= least, probs, 0.0)
    if sampling.min_p > 0:
        probs = torch.where(probs >= sampling.min_p * probs.amax(dim=-1, keepdim=True), probs, 0.0)
    return probs / probs.sum(dim=-1, keepdim=True), raw_maxima


def _likeliest(probs: Any, mass: float, top_k: int | None) -> Any:
    """Each row's largest probabilities, descending, as many as hold `mass`; a full sort only where few may not."""
    count = min(FEW, probs.shape[-1])
    ordered = probs.topk(count, dim=-1).values
    # After top_k what follows the last of the few can only tie with it, and a tie is kept or dropped as one.
    if count == probs.shape[-1] or (top_k is not None and top_k <= count):
        return ordered
    # To look at the sum costs nothing on a CPU, where a sort is slow; elsewhere it would be a synchronisation.
    if probs.device.type != "cpu" or bool((ordered.sum(dim=-1) < mass).any()):
        ordered = probs.sort(dim=-1, descending=True).values
    return ordered


def _biased(logits: Any, bias: Mapping[int, float]) -> Any:
    # A draft model of fewer rows than the target has no such token to be biased.
    tokens = [token for token in bias if token < logits.shape[-1]]
    values = upload(np.asarray([bias[token] for token in tokens], dtype=np.float64), logits).to(logits.dtype)
    columns = upload(np.asarray(tokens, dtype=np.int64), logits)
    return logits.index_add(-1, columns, values.expand(len(logits), -1))


def _not_ended(logits: Any, histories: Sequence[History], least: int, ends: Collection[int]) -> Any:
    """Logits without end tokens in the rows of answers that have fewer than `least` tokens."""
    lengths = [len(history.accepted) + len(path) for history in histories for path in history.places()]
    rows = upload(np.flatnonzero(np.asarray(lengths) < least), logits)
    columns = upload(
        np.asarray([end for end in sorted(ends) if end < logits.shape[-1]], dtype=np.int64), logits
    )
    logits = logits.clone()
    logits[rows[:, None], columns] = -math.inf
    return logits


def _processed(logits: Any, processor: Callable[[Any, Any], Any], histories: Sequence[History]) -> Any:
    import torch

    # Copied row by row: a processor may return the same buffer each time, or another type.
    processed, row = torch.empty_like(logits), 0
    for history in histories:
        text = [*history.prompt, *history.accepted]
        for path in history.paths():
            ids = upload(np.asarray([text + path], dtype=np.int64), logits)
            scores = logits[row][None].clone()  # some processors write into what they are given
            out = processor(ids, scores)
            if getattr(out, "shape", None) != scores.shape:
                name = getattr(processor, "__name__", type(processor).__name__)
                raise ContractError(
                    f"processor {name} returned {getattr(out, 'shape', type(out).__name__)}; "
                    f"scores of shape {tuple(scores.shape)} are needed"
                )
            processed[row] = out[0]
            row += 1
    return processed


def _check_rows(logits: Any, histories: Sequence[History], reads: Sequence[str]) -> None:
    count = sum(map(len, histories))
    if count != len(logits):
        raise ContractError(
            f"{len(logits)} rows of logits came with histories of {count} rows; settings.{reads[0]} depends on the "
            "tokens before each row, so probabilities() needs the history of every row"
        )


def _diagnose(logits: Any, raw_maxima: Any, histories: Sequence[History]) -> None:
    """Say why nothing can be drawn from a row, where a session needs that row or the model is at fault.

    Raises:
        ContractError: which of the two it is.
    """
    import torch

    if not bool(torch.isfinite(torch.logsumexp(logits, dim=-1)).all()):
        raise ContractError(
            "the model's logits are not finite numbers; its weights or its dtype are at fault"
        )
    # Rows behind drafted tokens may be out of reach: plain decoding would not have come there.
    row = 0
    for history in histories:
        if not history.start and not bool(torch.isfinite(raw_maxima[row])):
            raise ContractError(
                f"the settings leave no token after {len(history.accepted)} tokens of answer: min_new_tokens, "
                "processors and grammar contradict each other, or the tokenizer cannot write what the grammar asks for"
            )
        row += len(history)
