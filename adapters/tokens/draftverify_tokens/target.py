"""The target: the trusted language model, which reads a whole drafted block in one forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from draftverify import (
    ConfigError,
    Context,
    ContractError,
    Evidence,
    Explanation,
    Place,
    Proposal,
    Task,
    Verification,
)
from draftverify.traits import GeneratorTraits, VerifierTraits, traits_of
from draftverify_llm.text import read_prompt
from draftverify_tokens.divergence import explain
from draftverify_tokens.models import TokenModel, as_list, end_ids, is_owned, positions_of, prompt_of
from draftverify_tokens.pass_costs import pass_seconds
from draftverify_tokens.reader import BlockReading, distributions, history_of
from draftverify_tokens.sampling import SETTINGS, check_settings
from draftverify_tokens.self_test import self_test
from draftverify_tokens.states import reader_of
from draftverify_tokens.stopping import Stop
from draftverify_tokens.text import pieces

_STOP = Stop()


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """Where the target's hidden states stand, with keys and values; `hidden_states` reads them.

    Args:
        slot: of the session.
        layers: which they are, as indices into transformers' `hidden_states`.
        start: the place in prompt and answer of the first token that the session had read by this pass.
        end: where the block begins.
    """

    slot: Any
    layers: tuple[int, ...]
    start: int
    end: int


def hidden_states(context: Context, layers: Sequence[int] | None = None, start: int = 0) -> Any:
    """What a learned drafter reads: the target's hidden states of prompt and answer.

    Args:
        context: of a round whose target keeps them.
        layers: which, as indices into transformers' `hidden_states`; all that are kept, where None.
        start: the place of the first token.

    Returns:
        [n, layers, width], of the tokens from `start` on to the last but one, which no pass has read yet; None where
        there are none: in the first round, and in one that follows an interruption.
    """
    evidence = None if context.last is None else context.last.verification.evidence
    hidden = None if evidence is None else evidence.hidden
    if not isinstance(hidden, Hidden):
        return None
    count, kept = len(prompt_of(context)) + len(context.accepted) - 1, context.last.decision.kept  # type: ignore[union-attr]
    if count > hidden.end + len(kept):
        return None
    places = [
        *range(start, hidden.end),
        *(hidden.end + index for index in kept[max(0, start - hidden.end) :]),
    ]
    states = hidden.slot.states(places[: count - start])
    if states is None or layers is None or tuple(layers) == hidden.layers:
        return states
    return states[:, [hidden.layers.index(layer) for layer in layers]]


class Target:
    """Verifies drafted tokens with a language model: its distribution after the context and after each token.

    The pass reads what the cache lacks (the prompt at first, the last spliced token later) and the block, of every
    session that waits at once. Chains and trees alike; a tree's tokens see their own path alone. The pipeline's
    settings are applied to every row along its own path.

    Args:
        model: the language model.
        hidden: hidden states to keep as evidence, as indices into transformers' `hidden_states` (0 the embeddings, -1
            what the head reads). Those that a drafter says it reads (`GeneratorTraits.hidden`) are kept as well.
        compiled: compile the steps; by default where the model is on a GPU.
    """

    def __init__(self, model: TokenModel, hidden: tuple[int, ...] = (), compiled: bool | None = None) -> None:
        self.model = model
        self.hidden = hidden
        self.compiled = compiled

    @cached_property
    def _kept(self) -> tuple[int, ...]:
        """Which hidden states are kept: those of `hidden`, and what drafters read."""
        return tuple(self.hidden)

    @cached_property
    def _reader(self) -> Any:
        return reader_of(
            self.model.model,
            hidden=self._kept,
            compiled=self.compiled,
            owned=is_owned(self.model),
            lends=True,
            test=self_test,
        )

    def open(self) -> None:
        """Load the weights, and refuse a model that cannot be read block by block; see `self_test`.

        Raises:
            ConfigError: it computes other logits in blocks than without a cache, or keeps a state elsewhere.
        """
        self._reader  # noqa: B018

    def close(self) -> None:
        """Let the cache's memory go."""
        self.__dict__.pop("_reader", None)

    @cached_property
    def traits(self) -> VerifierTraits:
        """Distributions, their largest entries, and hidden states where they were asked for.

        It takes turns with whatever reads the same module: some models change their buffers in a pass. In half
        precision it is not deterministic: a block and single steps round differently.
        """
        return VerifierTraits(
            provides={"target", "raw_maxima", "hidden"} if self._kept else {"target", "raw_maxima"},
            reads=SETTINGS,
            vocabulary=lambda: self.model.vocabulary,
            concurrent=False,
            shares=lambda: (self.model.model,),
            deterministic=str(self._reader.dtype) in ("torch.float32", "torch.float64"),
        )

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings that this verifier cannot follow.

        Raises:
            ConfigError: naming the setting: out of range, or something that the model's tokenizer cannot do.
        """
        check_settings(settings, self.model)

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Refuse tasks without a prompt, before the model is loaded.

        Raises:
            ConfigError: naming the task.
        """
        for task in tasks:
            if task.input.get("prompt_ids") is None:
                read_prompt(task.input, f"task {task.id}, for a language model,")

    def check_generator(self, generator: Any) -> None:
        """Refuse a drafter of trees where the model can read chains alone.

        Raises:
            ConfigError: naming the model and the reason.
        """
        why = self._reader.no_trees
        if why is not None and traits_of(generator, GeneratorTraits).shape == "tree":
            raise ConfigError(
                f"{type(generator).__name__} drafts trees, which {type(self.model.model).__name__} cannot read: {why}; "
                "use a drafter of chains"
            )

    def keep_hidden(self, layers: Set[int]) -> None:
        """Keep hidden states for a drafter, beside those that are kept.

        Raises:
            ConfigError: the model is open already, and has no such state.
        """
        if missing := set(layers).difference(self._kept):
            kept = (*self._kept, *sorted(missing))
            if "_reader" in self.__dict__:
                self._reader.keep_hidden(kept)
            self._kept = kept
            self.__dict__.pop("traits", None)

    def prepare(self, task: Task) -> Task:
        """The task with what any part may want to know of the target.

        Returns:
            The task; its input has besides `prompt_ids` (made from `prompt` or `messages` unless given), `eos_ids` (the
            model's unless given), `vocabulary` (rows of logits) and `positions` (how many tokens the model takes; None:
            no limit known; see `positions_of`).

        Raises:
            ConfigError: there is no prompt, it does not fit, or the end tokens are none.
        """
        vocabulary: int = self.model.model.config.get_text_config().vocab_size
        positions, limit = positions_of(self.model.model)
        prompt_ids = task.input.get("prompt_ids")
        prompt = as_list(prompt_ids) if prompt_ids is not None else self.model.encode_prompt(task.input)
        if not prompt:
            raise ConfigError(
                f"the prompt of task {task.id!r} has no tokens; the model needs one to go on from"
            )
        for place, token in enumerate(prompt):
            if type(token) is not int or not 0 <= token < vocabulary:
                if prompt_ids is None:
                    raise ConfigError(
                        f"the tokenizer gives token {token} at place {place} of the prompt of task {task.id!r}, and "
                        f"the model's go from 0 to {vocabulary - 1}: it is another model's tokenizer, or tokens were "
                        "added to it; give the model's own"
                    )
                raise ConfigError(
                    f"prompt_ids of task {task.id!r} must be whole numbers from 0 to {vocabulary - 1}; at place "
                    f"{place} stands {token!r}"
                )
        if positions is not None and len(prompt) > positions:
            raise ConfigError(
                f"the prompt of task {task.id!r} has {len(prompt)} tokens; the model takes {positions} ({limit})"
            )
        eos_ids = task.input.get("eos_ids")
        ends = sorted(self.model.eos_ids) if eos_ids is None else end_ids(eos_ids)
        if not all(type(end) is int for end in ends):
            raise ConfigError(f"eos_ids of task {task.id!r} must be token ids, not {eos_ids!r:.80}")
        fields = {"prompt_ids": prompt, "eos_ids": ends, "vocabulary": vocabulary, "positions": positions}
        return msgspec.structs.replace(task, input={**task.input, **fields})

    def pass_seconds(self) -> Mapping[int, float]:
        """What a pass takes by its drafted tokens; {} but on a CPU, since each shape would be compiled for its own."""
        module = self.model.model
        if self.compiled or self._reader.device.type != "cpu":
            return {}
        return pass_seconds(module, positions_of(module)[0])

    def verify(self, context: Context, proposal: Proposal) -> Verification:
        """The target's distribution after the context and after each of the n drafted tokens.

        Returns:
            Evidence with target [n + 1, vocabulary] and raw_maxima [n + 1], and `Hidden` where it was asked for.

        Raises:
            ContractError: an item is no token of the target, or the model has no position left for it.
        """
        return self.verify_many([context], [proposal])[0]

    def verify_many(self, contexts: Sequence[Context], proposals: Sequence[Proposal]) -> list[Verification]:
        """`verify` for many sessions, in one forward pass."""
        for context, proposal in zip(contexts, proposals, strict=True):
            _check_fits(context, proposal)
        reader = self._reader
        tail = reader.tail(contexts, contexts[0].task.input["vocabulary"])
        reading = reader.read(contexts, proposals, tail)
        if reading.of_tail:
            target, raw_maxima, *_ = reading.of_tail
        else:
            histories = (history_of(self, *pair) for pair in zip(contexts, proposals, strict=True))
            target, raw_maxima = distributions(self.model, reading.logits, contexts, histories)
        deterministic, counts = self.traits.deterministic, reading.counts
        rows, maxima = target.split(counts), raw_maxima.split(counts)
        self._note(contexts, reading)
        hidden: Sequence[Hidden | None] = [
            Hidden(slot, self._kept, start, len(slot.tokens))
            for slot, start in zip(reading.slots, reading.starts, strict=True)
            if self._kept
        ] or [None] * len(counts)
        places: Sequence[Place | None] = [None] * len(counts)
        if len(counts) > 1 and len(set(counts)) == 1:  # the rule need not put the batch together again
            stacked = target.view(len(counts), counts[0], -1)
            places = [Place(stacked, index, row) for index, row in enumerate(rows)]
        return [
            Verification(
                evidence=Evidence(
                    target=rows[index], raw_maxima=maxima[index], hidden=hidden[index], place=places[index]
                ),
                deterministic=deterministic,
            )
            for index in range(len(counts))
        ]

    def _note(self, contexts: Sequence[Context], reading: BlockReading) -> None:
        """For whoever wants to look at the logits of a pass, as they are before the settings."""

    def done(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """The stopping rule of a pipeline that is given none: an end token, or the model's last position."""
        return _STOP(context, new)

    def text(self, values: Sequence[int]) -> str:
        """The text that tokens are."""
        return self.model.decode(values)

    def describe(self, values: Sequence[int]) -> list[str]:
        """One text per token; together they are the text. A token without text is shown as the tokenizer writes it."""
        return [
            piece or str(self.model.tokenizer.convert_ids_to_tokens(int(value)))
            for piece, value in zip(pieces(self.model, values), values, strict=True)
        ]

    def explain(
        self, task: Task, expected: Sequence[int], got: Sequence[int], settings: Mapping[str, Any]
    ) -> Explanation:
        """Why two outputs of one task differ: where they part, how near the two tokens are under the settings, and
        whether rounding can be the reason."""
        prompt = (task if "prompt_ids" in task.input else self.prepare(task)).input["prompt_ids"]
        return explain(self.model, as_list(prompt), as_list(expected), as_list(got), settings)


def _check_fits(context: Context, proposal: Proposal) -> None:
    items, fields, prompt = proposal.items, context.task.input, prompt_of(context)
    vocabulary, positions = fields["vocabulary"], fields["positions"]
    # Looking at items on a device would cost a transfer; those are the generator's word.
    on_host = not hasattr(items, "device") or str(items.device) == "cpu"
    if on_host and len(items) and not (min(items) >= 0 and max(items) < vocabulary):
        raise ContractError(
            f"drafted {[int(item) for item in items]}; the target's tokens go from 0 to {vocabulary - 1}"
        )
    if positions is None:
        return
    tokens = len(prompt) + len(context.accepted) + len(items)
    if tokens > positions:
        raise ContractError(f"prompt, answer and block are {tokens} tokens; the model takes {positions}")
