"""Answers that follow a JSON schema, a regular expression or a grammar: which tokens may come after each path.

llguidance says which tokens can go on from a text; what is here walks its matcher along the accepted tokens and each
drafted path, and back. The tokens allowed in a row depend on the row's path alone, so p and q are cut alike and
speculation stays exact: a drafted token that may not stand there has p = 0 and is refused. Where only one text may
follow, a walk says which.

References:
    https://github.com/guidance-ai/llguidance
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from draftverify import ConfigError, ContractError, ResourceError
from draftverify_tokens.history import History, upload
from draftverify_tokens.models import TokenModel

KEPT = 64
"""So many compiled grammars are kept for each tokenizer."""


class Constraint(NamedTuple):
    """What answers must be texts of.

    Args:
        kind: "json_schema", "regex" or "grammar", the name of the setting.
        text: the schema as JSON, the regular expression, or the grammar in Lark's notation.
    """

    kind: str
    text: str


class Grammar:
    """A constraint compiled for one tokenizer.

    Args:
        constraint: what answers must be.
        tokenizer: llguidance's form of the tokenizer.
    """

    def __init__(self, constraint: Constraint, tokenizer: Any) -> None:
        self.constraint = constraint
        self._tokenizer = tokenizer
        self.tokens: int = tokenizer.vocab_size
        self.ends = frozenset(tokenizer.eos_tokens)
        self.row_bytes = (self.tokens + 31) // 32 * 4
        self.end_row = np.zeros(self.row_bytes, dtype=np.uint8)
        for end in self.ends:
            self.end_row[end // 8] |= 1 << end % 8
        self._first = _library().LLMatcher(tokenizer, _source(constraint), log_level=0)
        if self._first.is_error():
            raise _bad(constraint, self._first.get_error())
        probe = self.matcher()
        probe.compute_bitmask()
        if probe.is_stopped() and not probe.is_accepting():
            raise _bad(constraint, "no text is of this form, so no answer can begin")

    def text(self, tokens: Sequence[int]) -> bytes:
        """The bytes of tokens."""
        text: bytes = self._tokenizer.decode_bytes(list(tokens))
        return text

    def written(self, text: bytes) -> list[int]:
        """The tokens in which the tokenizer writes a text that stands alone."""
        tokens: list[int] = self._tokenizer.tokenize_bytes(text)
        return tokens

    def matcher(self) -> Any:
        """A matcher that stands before the first token of an answer."""
        return self._first.deep_copy()


class Walk:
    """A matcher on its way along a session's tokens. It goes back only as far as it has to.

    Args:
        grammar: the constraint.
    """

    __slots__ = ("_after_end", "_matcher", "_taken", "grammar")

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self._matcher = grammar.matcher()
        self._taken: list[int] = []
        self._after_end = 0  # how many of those at the end of `_taken` the matcher was not told of

    def go(self, base: int, tail: Sequence[int]) -> int:
        """Stand after the first `base` tokens of those that were taken, and then as much of `tail` as may follow.

        Returns:
            How many tokens of `tail` that is.

        Raises:
            ConfigError: the matcher gave up, since the grammar is too much for it.
        """
        tokens = self._taken
        shared = 0
        most = min(len(tokens) - base, len(tail))
        if tokens[base : base + most] == list(tail[:most]):
            shared = most
        else:
            while tokens[base + shared] == tail[shared]:
                shared += 1
        self._back(len(tokens) - base - shared)
        for done in range(shared, len(tail)):
            if not self._take(tail[done]):
                return done
        return len(tail)

    def allowed(self, row: Any) -> None:
        """Write which tokens may follow into `row` [row_bytes], a bit for each.

        Raises:
            ConfigError: the matcher gave up, since the grammar is too much for it.
        """
        if self._after_end:
            row[:] = self.grammar.end_row
            return
        self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        self._check()
        if not self._matcher.is_accepting():
            # An end token that is text too (a line break that ends answers) would end the answer in its midst.
            for end in self.grammar.ends:
                row[end // 8] &= ~(1 << end % 8) & 255

    def forced(self) -> tuple[list[int], bytes]:
        """What must follow here, where there is no choice.

        Returns:
            The tokens that alone may stand at their places, and the text that must come behind them but can be written
            in several ways, with its end in one token with what is chosen after it. Both are empty where there is a
            choice, and where only the end of the answer may follow.

        Raises:
            ConfigError: the matcher gave up, since the grammar is too much for it.
        """
        if self._after_end:
            return [], b""
        certain: list[int] = self._matcher.compute_ff_tokens()
        text: bytes = self._matcher.compute_ff_bytes()
        self._check()
        written = self.grammar.text(certain)
        return certain, text[len(written) :] if text.startswith(written) else b""

    def _take(self, token: int) -> bool:
        if self._after_end or (token in self.grammar.ends and self._matcher.is_accepting()):
            # The matcher takes no end token after a text that nothing can follow, and none after an end token.
            may = token in self.grammar.ends
            self._after_end += may
        else:
            may = 0 <= token < self.grammar.tokens and self._matcher.try_consume_tokens([token]) == 1
            self._check()
        if may:
            self._taken.append(token)
        return may

    def _check(self) -> None:
        # A matcher that gave up would refuse everything from here on, which is not what the grammar says.
        if self._matcher.is_error():
            raise _bad(self.grammar.constraint, self._matcher.get_error())

    def _back(self, n: int) -> None:
        if not n:
            return
        del self._taken[-n:]
        untold = min(n, self._after_end)
        self._after_end -= untold
        if n > untold:
            self._matcher.rollback(n - untold)


def check_constraint(constraint: Constraint) -> None:
    """Refuse a schema, regular expression or grammar that is none, or that has in it what llguidance cannot do.

    Raises:
        ConfigError: saying what is wrong with it.
        ResourceError: llguidance is not installed.
    """
    fault: str = _library().LLMatcher.validate_grammar(_source(constraint))
    if fault:
        raise _bad(constraint, fault)


_COMPILED: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()
_COMPILING = Lock()


def compiled(constraint: Constraint, model: TokenModel, ends: frozenset[int] | None = None) -> Grammar:
    """The constraint for this model's tokenizer; made once, and kept.

    Args:
        constraint: what answers must be.
        model: whose tokenizer it is.
        ends: the tokens that end an answer, if they are not the model's own.

    Raises:
        ConfigError: the constraint, the tokenizer or the model's end tokens will not do.
        ResourceError: llguidance is not installed.
    """
    ends = model.eos_ids if ends is None else ends
    with _COMPILING:
        cache = _COMPILED.setdefault(model.tokenizer, {})
        grammar: Grammar | None = cache.get((ends, constraint))
        if grammar is None:
            tokenizer = cache.get(ends)
            if tokenizer is None:
                tokenizer = cache[ends] = _tokenizer(constraint, model.tokenizer, ends)
            while len(cache) > KEPT:
                cache.pop(next(key for key in cache if isinstance(key, tuple)))
            grammar = cache[ends, constraint] = Grammar(constraint, tokenizer)
        return grammar


def walk_of(grammar: Grammar, memo: dict[Any, Any]) -> Walk:
    """The walk along this grammar that a session's memo keeps; a new one where it has none."""
    walk: Walk | None = memo.get("grammar")
    if walk is None or walk.grammar is not grammar:
        walk = memo["grammar"] = Walk(grammar)
    return walk


def forbid(logits: Any, grammar: Grammar, histories: Sequence[History]) -> Any:
    """Logits with those of tokens that may not follow at -inf.

    After an answer that is complete only the end tokens may follow. A row whose path breaks the grammar cannot be
    reached; nothing is forbidden there but ids without text.

    Args:
        logits: [rows, vocabulary]; ids that the tokenizer does not have (padding) are forbidden.
        grammar: the constraint.
        histories: the sessions, whose rows follow each other in `logits`.

    Returns:
        [rows, vocabulary], a new tensor.

    Raises:
        ContractError: an accepted token breaks the grammar.
        ConfigError: the grammar is too much for the matcher.
    """
    import torch

    rows = np.empty((len(logits), grammar.row_bytes), dtype=np.uint8)
    row = 0
    for history in histories:
        walk, base = _walk(grammar, history)
        for path in history.paths():
            if walk.go(base, path) == len(path):
                walk.allowed(rows[row])
            else:
                rows[row] = 255
            row += 1
    bits = upload(rows, logits)[:, :, None] >> torch.arange(8, dtype=torch.uint8, device=logits.device)
    may = (bits & 1).bool().view(len(rows), -1)[:, : grammar.tokens]
    # As wide as the logits, which may have rows of padding, or (a draft model's) fewer rows than there are tokens.
    may = torch.nn.functional.pad(may, (0, logits.shape[-1] - grammar.tokens))
    return torch.where(may, logits, float("-inf"))


def _walk(grammar: Grammar, history: History) -> tuple[Walk, int]:
    """The session's matcher, after its accepted tokens, and how many these are."""
    walk = walk_of(grammar, history.memo)
    accepted = list(history.accepted)
    good = walk.go(0, accepted)
    if good < len(accepted):
        raise ContractError(
            f"token {good} of the answer, {accepted[good]}, may not stand there under settings."
            f"{grammar.constraint.kind}; the answer was begun under other settings, or the rule let through what the "
            "target gives no probability"
        )
    return walk, good


def _library() -> Any:
    try:
        import llguidance
    except ImportError:
        raise ResourceError(
            "json_schema, regex and grammar need llguidance: install draftverify with the extra 'tokens'"
        ) from None
    return llguidance


def _source(constraint: Constraint) -> str:
    """The constraint in llguidance's own notation."""
    matcher = _library().LLMatcher
    try:
        constraint.text.encode()
    except UnicodeEncodeError as error:
        raise _bad(constraint, f"it holds half a character ({error})") from None
    if constraint.kind == "regex":
        return str(matcher.grammar_from_regex(constraint.text))
    if constraint.kind == "grammar":
        return str(matcher.grammar_from_lark(constraint.text))
    try:
        schema = json.loads(constraint.text)
    except ValueError as error:
        raise _bad(constraint, f"it is no JSON ({error})") from None
    if not isinstance(schema, dict):
        raise _bad(constraint, f"a schema is a mapping, not {constraint.text}")
    return str(matcher.grammar_from_json_schema(constraint.text))


def _tokenizer(constraint: Constraint, tokenizer: Any, eos_ids: frozenset[int]) -> Any:
    """llguidance's form of a tokenizer.

    Raises:
        ConfigError: the model has no end token, or the tokenizer is not one of the tokenizers library.
    """
    # Some models name an end token among their padding, which has no text and cannot be told from any other.
    ids = set(tokenizer.get_vocab().values())
    ends = sorted(eos_ids & ids)
    if not ends:
        raise _bad(constraint, "the tokenizer has no end token, which must follow a complete answer")
    _library()
    from llguidance.hf import from_tokenizer

    try:
        return from_tokenizer(tokenizer, eos_token=ends)
    except (ValueError, TypeError) as error:
        raise _bad(
            constraint, f"the tokenizer {type(tokenizer).__name__} cannot be constrained ({error})"
        ) from error


def _bad(constraint: Constraint, why: str) -> ConfigError:
    # llguidance adds pages of its state to some messages.
    return ConfigError(why.split("\n<state>")[0].strip(), path=f"settings.{constraint.kind}")
