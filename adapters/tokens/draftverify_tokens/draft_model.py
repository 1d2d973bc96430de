"""A small language model of the target's family drafts one token after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile
from typing import Annotated, Any, Protocol

import msgspec
import numpy as np
from pydantic import Field

from draftverify import BlockSize, Context, Generator, Law, Place, Proposal, iid, inverse_cdf, uniforms
from draftverify.errors import below
from draftverify.protocols import Opens
from draftverify.traits import GeneratorTraits, offers
from draftverify_tokens.block_size import default_block
from draftverify_tokens.guest import Guest
from draftverify_tokens.history import upload
from draftverify_tokens.models import Continues, TokenModel, is_owned, positions_of, prompt_of, room
from draftverify_tokens.reader import distributions, history_of
from draftverify_tokens.sampling import SETTINGS
from draftverify_tokens.self_test import self_test
from draftverify_tokens.states import reader_of
from draftverify_tokens.target import Target

NO_BLOCK = Proposal.chain(())
GUESSED = 3
"""Most tokens that are guessed for one pass: the four-bit product reads four rows at little more than the price of one,
and five at twice that."""


class Lookup(Generator, Continues, Protocol):
    """A drafter that can guess on behind what another one has drafted. `PromptLookup` and `Suffix` are such."""


class DraftModel:
    """Draws tokens from a small model under the target's sampling settings, and reports the q it drew from.

    At temperature 0 q is one-hot, so the draws are the likeliest tokens. On a CPU drafting stops after one of the
    target's end tokens, and where the settings leave no token; on a device the tokens stay there, and nobody looks.

    Args:
        model: a model with the target's tokenizer. Where its rows of logits are more or fewer than the target's
            (padding), the surplus is cut off before the draw, or filled with zeros after it.
        compiled: compile the steps; by default where the model is on a GPU.
        own_cache: False reads on in the target's cache and never reads a prompt: for a model that is the target with
            rounded weights. Nothing is drafted in a session's first round, before the target has read its prompt.
        lookup: guesses what this model will draft. The model reads the guesses together with what it has drafted, and
            where its own draws agree with them it has the next token's row already: the same drafts in fewer passes.
            Each pass is waited for.
        margin: drafting stops behind a token where the two likeliest ones are less than so many nats apart, before the
            settings are applied: the target may well take the other, and what is drafted behind is seldom reached. 0
            drafts as many as are asked for. On a device each pass is waited for where it is set.
    """

    def __init__(
        self,
        model: TokenModel,
        compiled: bool | None = None,
        own_cache: bool = True,
        lookup: Lookup | None = None,
        margin: Annotated[float, Field(ge=0)] = 0.0,
    ) -> None:
        self.model = model
        self.compiled = compiled
        self.own_cache = own_cache
        self.lookup = lookup
        self.margin = margin

    @cached_property
    def _reader(self) -> Any:
        owned = is_owned(self.model)
        if not self.own_cache:
            return Guest(
                self.module, compiled=self.compiled, owned=owned
            )  # the target's cache, and its self-test
        return reader_of(self.module, compiled=self.compiled, owned=owned, test=self_test)

    @property
    def module(self) -> Any:
        """The transformers module that drafts."""
        return self.model.model

    @cached_property
    def traits(self) -> GeneratorTraits:
        """Chains that are drawn, in the model's vocabulary; it takes turns, as the target does."""
        return GeneratorTraits(
            shape="chain",
            laws={"iid"},
            reads=SETTINGS,
            vocabulary=lambda: self.model.vocabulary,
            concurrent=False,
            shares=self._shared,
        )

    def _shared(self) -> tuple[Any, ...]:
        """Its module, and as a guest those in whose caches it reads."""
        return self.module, *(self._reader.hosts if isinstance(self._reader, Guest) else ())

    @property
    def no_trees(self) -> str | None:
        """Why the model cannot read trees, where that is so; of the target where it reads in the target's cache."""
        return self._reader.no_trees

    def open(self) -> None:
        """Load the weights, and refuse a model that cannot be read block by block; see `self_test`.

        Raises:
            ConfigError: it computes other logits in blocks than without a cache, or keeps a state elsewhere.
        """
        self._reader  # noqa: B018
        if offers(self.lookup, Opens):
            with below("lookup"):
                self.lookup.open()

    def close(self) -> None:
        """Let the cache's memory go."""
        self.__dict__.pop("_reader", None)

    def check_verifier(self, verifier: Any) -> None:
        """Refuse a target in whose cache this model cannot read on.

        Raises:
            ConfigError: without a cache of its own this must be the target's model, rounded or cut short.
        """
        if isinstance(self._reader, Guest) and isinstance(verifier, Target):
            self._reader.check_fits(verifier._reader)

    def room(self, context: Context, n: int) -> int:
        """How many of `n` tokens may be drafted before this model or the target runs out of positions.

        Returns:
            0 where the text holds a token that this model has no row for, and where this model has no cache of its own
            and the target has none yet.
        """
        if isinstance(self._reader, Guest) and not self._reader.invited(context):
            return 0
        n = room(context, n)
        prompt, accepted = prompt_of(context), context.accepted
        rows: int = self._config.vocab_size
        if self._vocabulary(context) > rows and max(*prompt, *accepted, 0) >= rows:
            return 0
        limit, _ = positions_of(self.module)
        return n if limit is None else max(0, min(n, limit - len(prompt) - len(accepted)))

    def default_block(self) -> BlockSize | int:
        """A controller that measures, of up to 16 tokens."""
        return default_block("chain")

    def propose(self, context: Context, n: int) -> Proposal:
        """At most `n` tokens, with q [tokens, vocabulary]."""
        return self.propose_many([context], [n])[0]

    def propose_many(self, contexts: Sequence[Context], ns: Sequence[int]) -> list[Proposal]:
        """`propose` for many sessions, in as many forward passes as the longest block has tokens."""
        rooms = [self.room(context, n) for context, n in zip(contexts, ns, strict=True)]
        indices = [index for index, n in enumerate(rooms) if n]
        draw = self._draw if self.lookup is None else self._draw_guessing
        drafted, q, raw_maxima, lengths = draw(
            [contexts[index] for index in indices],
            [rooms[index] for index in indices],
            self._vocabulary(contexts[0]),
        )
        nothing = Proposal.chain((), iid(q.new_empty((0, q.shape[-1])), raw_maxima=q.new_empty(0)))
        proposals = [nothing] * len(contexts)
        for b, (index, m) in enumerate(zip(indices, lengths, strict=True)):
            items = drafted[b, :m]
            place = Place.of(q, b, m)
            law = Law("iid", place.rows, raw_maxima[b, :m], place)
            proposals[index] = Proposal.chain(tuple(items.tolist()) if _on_host(items) else items, law)
        return proposals

    def _draw(
        self, contexts: Sequence[Context], sizes: Sequence[int], vocabulary: int
    ) -> tuple[Any, Any, Any, list[int]]:
        """Draw a block of each session, token by token.

        Returns:
            Tokens [sessions, most], q [sessions, most, vocabulary], raw maxima [sessions, most], and how many of them
            each session's block has.
        """
        import torch

        n = max(sizes, default=0)
        drafted = torch.zeros((len(sizes), n), dtype=torch.int64, device=self.module.device)
        q = torch.zeros((len(sizes), n, vocabulary), device=drafted.device)
        raw_maxima = q.new_zeros((len(sizes), n))
        lengths = list(sizes)
        if not lengths:
            return drafted, q, raw_maxima, lengths
        keys = np.asarray([context.draws.key for context in contexts])
        rounds = np.asarray([context.draws.round for context in contexts])
        u = upload(uniforms(keys, rounds, np.arange(n)), q)
        ends = [frozenset(context.task.input.get("eos_ids", self.model.eos_ids)) for context in contexts]
        going = list(range(len(lengths)))  # the sessions that draft on
        at: Any = slice(None)
        single = len(lengths) == 1
        tail = self._reader.tail(contexts, vocabulary, draws=single)
        if tail is not None and single:
            tail.drawn.copy_(u[0, :1])
        reading = self._reader.read(contexts, [NO_BLOCK] * len(lengths), tail)
        outputs: Sequence[Any] = (reading.logits, *reading.of_tail)
        for i in range(n):
            logits, *shaped = outputs
            active, prefixes = [contexts[b] for b in going], drafted[:, :i].unbind()
            histories = (history_of(self, contexts[b], Proposal.chain(prefixes[b]), start=i) for b in going)
            rows, maxima = (
                shaped[:2] if shaped else distributions(self.model, logits[:, :vocabulary], active, histories)
            )
            raw_maxima[at, i] = maxima
            drafted[at, i] = tokens = shaped[2] if len(shaped) > 2 else _drawn(rows, u[at, i], active)
            q[at, i, : rows.shape[-1]] = rows
            if _on_host(tokens) or self.margin:
                doubtful = self._doubtful(logits[:, :vocabulary]).tolist()
                drawable = maxima.isfinite().tolist()
                for b, token, doubt, drawn in zip(going, tokens.tolist(), doubtful, drawable, strict=True):
                    if doubt or not drawn or token in ends[b]:
                        lengths[b] = i + drawn
                    if not drawn:  # of a batch nobody's row holds what is no number
                        q[b, i], raw_maxima[b, i] = 0.0, 0.0
            still = [b for b in going if lengths[b] > i + 1]
            if not still:
                break
            if still != going:
                going, at = still, upload(np.asarray(still), q)
            if tail is not None and single:
                tail.drawn.copy_(u[0, i + 1 : i + 2])
            outputs = self._reader.extend([contexts[b] for b in going], drafted[at, : i + 1], tail)
        self._reader.note(contexts)
        return drafted, q, raw_maxima, lengths

    def _draw_guessing(
        self, contexts: Sequence[Context], sizes: Sequence[int], vocabulary: int
    ) -> tuple[Any, Any, Any, list[int]]:
        """As `_draw`, with the same numbers from the same rows, several of which one pass may give."""
        import torch

        n = max(sizes, default=0)
        device = self.module.device
        q = torch.zeros((len(sizes), n, vocabulary), device=device)
        raw_maxima = q.new_zeros((len(sizes), n))
        drafted: list[list[int]] = [[] for _ in sizes]
        going = list(range(len(sizes)))
        if going:
            keys = np.asarray([context.draws.key for context in contexts])
            rounds = np.asarray([context.draws.round for context in contexts])
            u = uniforms(keys, rounds, np.arange(n))
            ends = [frozenset(context.task.input.get("eos_ids", self.model.eos_ids)) for context in contexts]
        while going:
            guesses, histories, grown, uniform = [], [], [], []
            for b in going:
                context, block = contexts[b], drafted[b]
                guess = self._guess(context, block, min(GUESSED, sizes[b] - len(block) - 1))
                guesses.append(Proposal.chain(guess))
                grown.append(msgspec.structs.replace(context, accepted=(*context.accepted, *block)))
                path = Proposal.chain((*block, *guess))
                histories.append(history_of(self, context, path, start=len(block)))
                uniform.append(u[b, len(block) : len(block) + len(guess) + 1])
            reading = self._reader.read(grown, guesses)
            active = [contexts[b] for b in going]
            rows, maxima = distributions(self.model, reading.logits[:, :vocabulary], active, histories)
            drawn = _drawn(rows, upload(np.concatenate(uniform), rows), active).tolist()
            doubtful = self._doubtful(reading.logits[:, :vocabulary]).tolist()
            drawable = maxima.isfinite().tolist()
            offset, still = 0, []
            for b, guess in zip(going, guesses, strict=True):
                block, start = drafted[b], len(drafted[b])
                tokens = drawn[offset : offset + len(guess) + 1]
                ending = [
                    token in ends[b] or doubt
                    for token, doubt in zip(tokens, doubtful[offset : offset + len(tokens)], strict=True)
                ]
                # The first row in which the settings leave no token.
                dead_end = next((j for j in range(len(tokens)) if not drawable[offset + j]), None)
                count = _agreeing(tokens[:dead_end], guess.items, ending)
                block += tokens[:count]
                q[b, start : len(block), : rows.shape[-1]] = rows[offset : offset + count]
                raw_maxima[b, start : len(block)] = maxima[offset : offset + count]
                offset += len(tokens)
                if len(block) < sizes[b] and count != dead_end and not ending[count - 1]:
                    still.append(b)
            going = still
        self._reader.withdraw(contexts)
        lengths = list(map(len, drafted))
        padded = [tokens + [0] * (n - len(tokens)) for tokens in drafted]
        return (
            torch.tensor(padded, dtype=torch.int64, device=device).view(len(sizes), n),
            q,
            raw_maxima,
            lengths,
        )

    def _doubtful(self, logits: Any) -> Any:
        """Of rows [rows, vocabulary], whether a token drawn from them ends its block."""
        if not self.margin:
            return logits.new_zeros(len(logits), dtype=bool)
        largest, second = logits.topk(2, dim=-1).values.unbind(-1)
        return largest - second < self.margin

    def _guess(self, context: Context, drafted: Sequence[int], n: int) -> tuple[int, ...]:
        """At most `n` tokens that this model may draft next, of those that it has."""
        if n < 1 or self.lookup is None:
            return ()
        guess, rows = self.lookup.continuation(context, n, drafted), self._config.vocab_size
        return tuple(takewhile(lambda token: token < rows, guess))

    def rows(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> tuple[Any, Any]:
        """The scores that a tree is grown by: this model's distributions under each context's settings, in one pass.

        Args:
            contexts: the sessions.
            proposals: of each the tokens drafted so far, a chain or a tree.

        Returns:
            q [rows, vocabulary] and raw maxima [rows]: of each session the row after its context, then one after each
            item.
        """
        import torch

        vocabulary = self._vocabulary(contexts[0])
        logits = self._reader.read(contexts, proposals).logits[:, :vocabulary]
        histories = [history_of(self, *pair) for pair in zip(contexts, proposals, strict=True)]
        q, raw_maxima = distributions(self.model, logits, contexts, histories)
        return torch.nn.functional.pad(q, (0, vocabulary - q.shape[-1])), raw_maxima

    @property
    def _config(self) -> Any:
        return self.module.config.get_text_config()

    def _vocabulary(self, context: Context) -> int:
        """The target's rows of logits; this model's own where the task was prepared by nobody."""
        vocabulary: int = context.task.input.get("vocabulary", self._config.vocab_size)
        return vocabulary


def _drawn(rows: Any, u: Any, contexts: Sequence[Context]) -> Any:
    """A token of each row [rows, vocabulary], by its uniform; at temperature 0 there is but one."""
    if all(context.settings.get("temperature") == 0 for context in contexts):
        return rows.max(dim=-1).indices
    return inverse_cdf(rows, u)


def _agreeing(drawn: Sequence[int], guess: Sequence[int], ending: Sequence[bool]) -> int:
    """How many draws come from rows of their own text: up to the first that was not guessed, or is the block's last."""
    for index, token in enumerate(drawn):
        if index == len(guess) or token != guess[index] or ending[index]:
            return index + 1
    return len(drawn)


def _on_host(tensor: Any) -> bool:
    """Whether a look at its values waits for no device."""
    on_host: bool = tensor.device.type == "cpu"
    return on_host
