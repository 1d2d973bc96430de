"""Reading models that keep a running state: Mamba, gated delta nets, short convolutions, and hybrids of these with
attention.

A state holds the past as one sum, so nothing can be taken back out of it, and two sequences cannot be padded to one
length. So each session has transformers' own cache and passes of its own, and before a drafted block its states are
copied. What was accepted of a refused block is read again from the copy, together with the next block: a round stays
one pass. Keys and values are never copied, since a layer makes new ones when it grows. Trees are refused: siblings
would need a state each.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftverify import ConfigError, Context, Proposal
from draftverify_llm import evaluating
from draftverify_tokens.fingerprint import Fingerprint
from draftverify_tokens.models import prompt_of
from draftverify_tokens.reader import BlockReader, BlockReading, check_chains

AGAIN = 16
"""More accepted tokens than these are not read again with every block: a pass of their own settles them."""
NO_TREES = "it keeps a running state, of which siblings would need one each"


def keeps_state(module: Any) -> bool:
    """Whether a layer keeps a running state in its cache, in place of keys and values or beside them."""
    return any(hasattr(layer, "conv_states") for layer in _cache_of(module).layers)


def reader_of(module: Any, **arguments: Any) -> Any:
    """`StateReader` for a model that keeps a running state, else `BlockReader`, whose arguments these are."""
    return (StateReader if keeps_state(module) else BlockReader)(module, **arguments)


@dataclass(slots=True, eq=False)
class _Held:
    """What a session's cache has read.

    Args:
        version: of the model.
        cache: transformers' own, after `tokens` and `behind`.
        tokens: those that are settled.
        behind: read after them, and may be refused.
        saved: the cache's layers after `tokens`; None where they were not kept.
    """

    version: int
    cache: Any
    tokens: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=list)
    saved: list[Any] | None = None


class StateReader:
    """As `BlockReader`, for models that keep a running state; its sessions share nothing.

    Args:
        module: a transformers causal language model.
        hidden, compiled: neither hidden states nor compiled steps are there for such models.
        owned, lends: of no concern: nothing is lent.
        test: as of `BlockReader`.

    Attributes:
        one_by_one: whether its code goes on from a state by single tokens alone, so that a block costs a pass a token.

    Raises:
        ConfigError: something was asked for that is not there, or the model does not stand the test.
    """

    no_trees = NO_TREES

    def __init__(
        self,
        module: Any,
        *,
        hidden: Sequence[int] = (),
        compiled: bool | None = None,
        owned: bool = False,
        lends: bool = False,
        test: Callable[[Any], str | None] = lambda module: None,
    ) -> None:
        self.module = module
        for argument, wanted in (("hidden", bool(hidden)), ("compiled", bool(compiled))):
            if wanted:
                self._refuse(argument)
        self._test = test
        self._version = 0
        self._fingerprint: Fingerprint | None = None
        self._look_at_model()

    @property
    def dtype(self) -> Any:
        """The type that the model computes in."""
        return self.module.get_input_embeddings().weight.dtype

    @property
    def device(self) -> Any:
        """Where the model is."""
        return self.module.get_input_embeddings().weight.device

    def keep_hidden(self, layers: Sequence[int]) -> None:
        """None are there.

        Raises:
            ConfigError: always.
        """
        self._refuse("hidden")

    def _refuse(self, argument: str) -> None:
        drafter = ", and choose a drafter that reads no hidden states" if argument == "hidden" else ""
        raise ConfigError(
            f"{type(self.module).__name__} keeps a running state, and is read without `{argument}`; leave it out"
            f"{drafter}",
            path=argument,
        )

    def tail(self, contexts: Sequence[Context], vocabulary: int, *, draws: bool = False) -> None:
        """Nothing is made of logits on the way."""

    def read(
        self, contexts: Sequence[Context], proposals: Sequence[Proposal], tail: None = None
    ) -> BlockReading:
        """Logits after each context and after each item of its block, a pass for each session.

        A pass that fails leaves no cache behind.

        Raises:
            ContractError: a block is a tree.
            ConfigError: the model was changed, and cannot be read block by block any more.
        """
        import torch

        check_chains(self.module, self.no_trees, proposals)
        if any(self not in context.scratch for context in contexts):
            self._look_at_model()
        rows = []
        with torch.inference_mode(), evaluating(self._modules):
            for context, proposal in zip(contexts, proposals, strict=True):
                held = context.scratch.pop(self, None)
                if held is None or held.version != self._version:
                    held = self._empty()
                text, block = [*prompt_of(context), *context.accepted], list(map(int, proposal.items))
                self._settle(held, text)
                pending = text[len(held.tokens) :]
                if block and len(pending) > AGAIN:
                    self._run(held.cache, len(held.tokens), pending[:-1], 1)
                    held.tokens, pending = text[:-1], pending[-1:]
                held.saved = _copied(held.cache) if block else None
                held.behind, wanted = pending + block, len(block) + 1
                rows.append(self._run(held.cache, len(held.tokens), held.behind, wanted)[-wanted:])
                context.scratch[self] = held
        return BlockReading(torch.cat(rows), [len(proposal) + 1 for proposal in proposals])

    def extend(self, contexts: Sequence[Context], drafted: Any, tail: None = None) -> Sequence[Any]:
        """Read on: one more drafted token of each session; as `BlockReader.extend`."""
        import torch

        rows = []
        with torch.inference_mode(), evaluating(self._modules):
            for context, tokens in zip(contexts, drafted.tolist(), strict=True):
                held = context.scratch.pop(self)
                if held.saved is None:  # what was read so far is the context, all of it accepted
                    held.tokens, held.behind = held.tokens + held.behind, []
                    held.saved = _copied(held.cache)
                start = len(held.tokens) + len(held.behind)
                rows.append(self._run(held.cache, start, tokens[-1:], 1))
                held.behind.append(tokens[-1])
                context.scratch[self] = held
        return [torch.cat(rows)]

    def withdraw(self, contexts: Sequence[Context]) -> None:
        """Nothing to do: the next pass compares what was read with what was accepted."""

    def note(self, contexts: Sequence[Context]) -> None:
        """Nothing to do: tokens are on the host."""

    def _settle(self, held: _Held, text: list[int]) -> None:
        """Bring the cache to a beginning of the text, without its last token, whose logits are wanted."""
        read, begun = held.tokens + held.behind, text[:-1]
        if begun[: len(read)] == read:
            held.tokens = read
        elif held.saved is not None and begun[: len(held.tokens)] == held.tokens:
            held.cache.layers = held.saved
        else:
            held.cache, held.tokens = self._empty().cache, []
        held.behind, held.saved = [], None

    def _run(self, cache: Any, start: int, tokens: Sequence[int], keep: int) -> Any:
        """Read tokens on from a cache that holds `start`: logits [at least keep, vocabulary], of the last of them."""
        import torch

        if self.one_by_one and start and len(tokens) > 1:
            single = [self._run(cache, start + i, [token], 1) for i, token in enumerate(tokens)]
            return torch.cat(single)
        takes = inspect.signature(self.module.forward).parameters
        arguments: dict[str, Any] = {
            "input_ids": torch.tensor([tokens], device=self.device),
            "cache_params" if "cache_params" in takes else "past_key_values": cache,
            "use_cache": True,
            "logits_to_keep": keep,
            "position_ids": torch.arange(start, start + len(tokens), device=self.device)[None],
        }
        return self.module(**{name: value for name, value in arguments.items() if name in takes}).logits[0]

    def _look_at_model(self) -> None:
        """Forget what was read with a model that was changed since."""
        now = Fingerprint(self.module)
        if now == self._fingerprint:
            return
        self._fingerprint = None  # until it has stood the test: else it is refused each time
        self._version += 1
        self._modules = list(self.module.modules())
        self.one_by_one = self._goes_on_by_one()
        self._test(self.module)
        self._fingerprint = now

    def _goes_on_by_one(self) -> bool:
        """Whether two tokens that are read on from a state are other than in one pass with those before them.

        Rounding is far from that: where a module's code begins anew with a block, its logits are another text's.
        """
        import torch

        self.one_by_one = False
        text = [id % self.module.config.get_text_config().vocab_size for id in range(3, 8)]
        with torch.inference_mode(), evaluating(self._modules):
            try:
                whole = self._run(self._empty().cache, 0, text, 2)[-2:].double()
                cache = self._empty().cache
                self._run(cache, 0, text[:3], 1)
                apart = self._run(cache, 3, text[3:], 2)[-2:].double()
            except Exception:  # the test says what is wrong
                return False
        return bool((apart - whole).norm() > 0.1 * (whole - whole.mean()).norm())

    def _empty(self) -> _Held:
        return _Held(self._version, _cache_of(self.module))


def _cache_of(module: Any) -> Any:
    from transformers.cache_utils import DynamicCache

    return DynamicCache(config=module.config)


def _copied(cache: Any) -> list[Any]:
    """The layers as they are now: states are changed in place, keys and values replaced."""
    layers = []
    for layer in cache.layers:
        layers.append(saved := copy.copy(layer))
        for name, value in vars(layer).items():
            if isinstance(value, (list, dict)):
                setattr(saved, name, copy.deepcopy(value))
    return layers
