"""One call: a model, prompts in any form, and who drafts; texts and token ids come back. A thin layer over `Pipeline`.

`generate` and `stream` are for a call now and then. A `Decoder` is what they make and let go: kept over many calls it
also keeps what the block-size controller has measured, and what was compiled for a GPU.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from draftverify import BlockSize, ConfigError, DraftVerifyError, Generator, Pipeline, Task, TaskRecord
from draftverify.errors import below
from draftverify.protocols import BringsBlock
from draftverify.rules import KSeq, Speculative, Tree
from draftverify.traits import GeneratorTraits, has_methods, offers, traits_of
from draftverify_llm import CATALOGUE, LocalModel, before_stop
from draftverify_tokens.block_size import default_block
from draftverify_tokens.call_options import check_names, check_whole, read_options
from draftverify_tokens.dflash import DFlash
from draftverify_tokens.draft_model import DraftModel
from draftverify_tokens.drafter_config import STATES, kind_of
from draftverify_tokens.eagle import Eagle
from draftverify_tokens.first_of import FirstOf
from draftverify_tokens.forced import Forced
from draftverify_tokens.generation import Generation, TextStream
from draftverify_tokens.log_probabilities import ScoredTarget, Scoring
from draftverify_tokens.medusa import Medusa
from draftverify_tokens.models import TokenModel
from draftverify_tokens.mtp import Mtp
from draftverify_tokens.no_draft import NoDraft
from draftverify_tokens.prompt_forms import read_prompts
from draftverify_tokens.prompt_lookup import PromptLookup
from draftverify_tokens.sampling import SETTINGS
from draftverify_tokens.stopping import Criteria, Stop, positions_left
from draftverify_tokens.suffix import Suffix

DRAFTERS: dict[str, Callable[[TokenModel], Generator]] = {
    "lookup": lambda target: PromptLookup(),
    "suffix": lambda target: Suffix(),
    "forced": lambda target: FirstOf([Forced(target), PromptLookup()]),
    "mtp": Mtp,
    "none": lambda target: NoDraft(),
}
"""Drafters by name, made for a target's model."""

SEEDED = 8
"""The block of draws that are to come out the same again: one that is measured depends on the clock."""

_CONTROLLERS: WeakKeyDictionary[Any, dict[Any, BlockSize]] = WeakKeyDictionary()
"""By the module: for each drafter with a name, way to choose, type and device, what calls in this process have taught
the block size."""

One: TypeAlias = Generation | list[Generation]


class _Call(NamedTuple):
    """What the arguments of a call make of one prompt.

    Args:
        pipeline: under its settings.
        strings: texts that end the answer.
        ends: tokens that end it, and have no text; none where they are ignored.
        limit: the most tokens.
        scoring: what notes log-probabilities, where they are asked for.
    """

    pipeline: Pipeline
    strings: tuple[str, ...]
    ends: frozenset[int]
    limit: float
    scoring: Scoring | None


class _Batch(NamedTuple):
    """The samples of a call, their tokens looked at before anything runs."""

    tasks: list[Task]
    calls: list[_Call]
    single: bool
    n: int

    @property
    def pipelines(self) -> list[Pipeline]:
        return [call.pipeline for call in self.calls]


class Decoder:
    """A model with a drafter and settings, ready for many calls; the arguments are those of `generate`.

    Arguments other than the model, the drafter and the tokenizer hold for calls that do not say otherwise. What it
    loads itself (a model given by name) it lets go in `close`, or at the end of a `with`.

    Args:
        model: a transformers module (with `tokenizer`; it is read as in eval mode, and stays as it is), a `LocalModel`
            or another TokenModel, a name of the catalogue, or a directory.
        drafter: a name of `DRAFTERS`, a generator, the directory of a trained one (`Eagle`, `Medusa`, `DFlash`), or a
            smaller model in any form that `model` may have.
        tokenizer: of a module, which does not know its own.
        max_new_tokens: the most tokens in an answer; None: as many as the model has positions for.
        temperature: 0 takes the likeliest token each time, as transformers' greedy decoding. The sampling settings that
            come with a model's files are not read.
        stop: a text, or several, that end an answer.
        chat: whether a text goes through the chat template as one user turn, where the tokenizer has one.
        block: tokens to draft at once, or a block size; None: the drafter's own, which is measured and drafts nothing
            where it does not pay. Of a seeded draw it is 8: which tokens a number draws depends on where blocks begin.
        seed: the same seed draws the same tokens for the same place among the prompts; None for any.
        logprobs: whether to give the tokens' log-probabilities; it costs a look at each emitted token's row. A number
            gives those of so many likeliest tokens too.
        eos_token_id: ids that end an answer in place of the model's: one, or a list, an array, a tensor of them.
        ignore_eos: go on after an end token, for measurements of a fixed length.
        stopping_criteria: transformers' StoppingCriteria or yours, callables (input_ids [1, n], None) -> bool, asked
            after each token.
        settings: as a pipeline's: min_new_tokens, top_k, top_p, min_p, repetition_penalty, frequency_penalty,
            presence_penalty, logit_bias, processors, json_schema, regex, grammar.

    Attributes:
        pipeline: what runs.

    Raises:
        ConfigError: an argument that cannot be what was meant; its path names it.
        ResourceError: weights or packages are missing.
        PipelineError: the drafter does not fit the model.
    """

    def __init__(
        self,
        model: Any,
        drafter: Any = "lookup",
        *,
        tokenizer: Any = None,
        max_new_tokens: int | None = 256,
        temperature: float = 0.0,
        stop: str | Sequence[str] = (),
        chat: bool = True,
        block: int | BlockSize | None = None,
        seed: int | None = None,
        logprobs: bool | int = False,
        eos_token_id: Any = None,
        ignore_eos: bool = False,
        stopping_criteria: Sequence[Callable[[Any, Any], Any]] = (),
        **settings: Any,
    ) -> None:
        self._options = {
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
            "stop": stop,
            "chat": chat,
            "block": block,
            "seed": seed,
            "logprobs": logprobs,
            "eos_token_id": eos_token_id,
            "ignore_eos": ignore_eos,
            "stopping_criteria": stopping_criteria,
        }
        check_names(settings, [*(Decoder.__init__.__kwdefaults__ or {}), "drafter"])
        self._options |= settings
        read_options(self._options)
        self._closing = ExitStack()
        with ExitStack() as failing:
            failing.callback(self.close)
            self.model = self._loaded(model, tokenizer, "model")
            self._target = ScoredTarget(self.model)
            self._generator = self._drafting(drafter)
            self._name = drafter if isinstance(drafter, str) and drafter in DRAFTERS else None
            # What earlier calls with this model have taught the block size of a drafter with a name.
            self._taught = _CONTROLLERS.setdefault(self.model.model, {}) if self._name else {}
            self.pipeline = self._call({}).pipeline
            self.pipeline.open()
            self._closing.callback(self.pipeline.close)
            failing.pop_all()

    def generate(
        self,
        prompts: Any,
        *,
        n: int = 1,
        batch_size: int = 8,
        attention_mask: Any = None,
        per_prompt: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Generation | list[One]:
        """Answer prompts; see the function `generate`.

        Args:
            prompts, n, batch_size, attention_mask: as there.
            per_prompt: for each prompt options of its own, which stand over the call's. All prompts share their passes.
            **options: what this call has otherwise than the decoder: all of its arguments but those of the model.
        """
        batch = self._batch(prompts, n, batch_size, attention_mask, per_prompt, options)
        return self._answers(
            batch, self.pipeline.record(batch.tasks, size=batch_size, pipelines=batch.pipelines)
        )

    async def agenerate(
        self,
        prompts: Any,
        *,
        n: int = 1,
        batch_size: int = 8,
        attention_mask: Any = None,
        per_prompt: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Generation | list[One]:
        """As `generate`, under asyncio: passes run in threads, and those of calls that are gathered are shared.

        Cancelled, it ends after the pass that is under way, and lets go of what it has read.
        """
        how = prompts, n, batch_size, attention_mask, per_prompt, options
        batch = await asyncio.to_thread(self._batch, *how)
        return self._answers(
            batch, await self.pipeline.arecord(batch.tasks, size=batch_size, pipelines=batch.pipelines)
        )

    def stream(self, prompt: Any, *, attention_mask: Any = None, **options: Any) -> TextStream:
        """Answer one prompt, piece by piece; see the function `stream`. Options are as of `generate`."""
        batch = self._batch(prompt, 1, 1, attention_mask, None, options)
        if len(batch.tasks) != 1:
            raise ConfigError(
                f"stream takes one prompt, not {len(batch.tasks)}; generate decodes many in a batch",
                path="prompt",
            )
        call, task = batch.calls[0], batch.tasks[0]
        return TextStream(
            call.pipeline, task, call.strings, call.ends, lambda record: self._answer(call, task, record)
        )

    def close(self) -> None:
        """Let the cache's memory go, and what was loaded here."""
        self._closing.close()

    def __enter__(self) -> Decoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Its parts

    def _loaded(self, model: Any, tokenizer: Any, path: str) -> TokenModel:
        """The token model of what a user has."""
        if isinstance(model, (str, Path)):
            local = LocalModel(model)
            self._closing.callback(local.close)
            _no_tokenizer(tokenizer, path)
            return local
        if hasattr(model, "encode_prompt") and hasattr(model, "tokenizer"):
            _no_tokenizer(tokenizer, path)
            loaded: TokenModel = model
            return loaded
        if isinstance(model, type) or not (callable(model) and hasattr(model, "config")):
            forms = "a transformers module, a LocalModel, a name or a directory"
            if path == "drafter":
                forms = f"a name ({', '.join(DRAFTERS)}), a generator, or as a small model {forms}"
            raise ConfigError(f"{path} is {model!r:.80}; {forms} is needed", path=path)
        if tokenizer is None:
            name = getattr(model, "name_or_path", "") or "…"
            raise ConfigError(
                f"{path} is a {type(model).__name__}, which does not know its tokenizer; give it too, as "
                f"tokenizer=AutoTokenizer.from_pretrained({name!r})",
                path="tokenizer",
            )
        if isinstance(tokenizer, type) or not (callable(tokenizer) and hasattr(tokenizer, "chat_template")):
            raise ConfigError(
                f"tokenizer is {tokenizer!r:.80}; a transformers tokenizer is needed, as "
                "AutoTokenizer.from_pretrained(name) loads it",
                path="tokenizer",
            )
        return LocalModel.from_module(model, tokenizer)

    def _drafting(self, drafter: Any) -> Any:
        if has_methods(drafter, "propose"):
            return drafter
        if isinstance(drafter, str) and drafter in DRAFTERS:
            return DRAFTERS[drafter](self.model)
        if isinstance(drafter, str) and drafter not in CATALOGUE and not Path(drafter).exists():
            names = [*DRAFTERS, *CATALOGUE]
            near = get_close_matches(drafter, names, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"a name is one of {', '.join(DRAFTERS)}."
            raise ConfigError(
                f"there is no drafter {drafter!r}; {meant} Else give a generator, the directory of a trained "
                "drafter, or a small model: a name of the catalogue, its directory, a LocalModel",
                path="drafter",
            )
        if isinstance(drafter, (str, Path)) and (kind := kind_of(Path(drafter))) is not None:
            trained = {STATES: DFlash, "medusa": Medusa}.get(kind, Eagle)
            return trained(self.model, Path(drafter))
        module = hasattr(drafter, "config") and not hasattr(drafter, "encode_prompt")
        if module and not isinstance(drafter, type):
            self._check_shares_tokens(drafter)
        small = self._loaded(drafter, self.model.tokenizer if module else None, "drafter")
        if small.vocabulary != self.model.vocabulary:
            raise ConfigError(
                "drafter is a model of another tokenizer, whose tokens do not mean the same; one that drafts text is "
                "drafter=OtherTokenizer(small, target), both LocalModels",
                path="drafter",
            )
        return DraftModel(small)

    def _check_shares_tokens(self, module: Any) -> None:
        """A module does not say what its tokens mean; one that lacks some of the target's has others."""
        rows, tokens = module.config.get_text_config().vocab_size, len(self.model.tokenizer)
        target = self.model.model.config.get_text_config().vocab_size
        if rows < min(tokens, target):
            raise ConfigError(
                f"drafter is a {type(module).__name__} of {rows} tokens, where the model's tokenizer has {tokens}: "
                "it is of another tokenizer; OtherTokenizer(LocalModel.from_module(small, its_tokenizer), target) "
                "drafts text",
                path="drafter",
            )

    def _sized(self, block: int | BlockSize | None, *, drawn: bool, seeded: bool) -> int | BlockSize:
        """The block size: what was asked for, else the drafter's own with what calls have taught it."""
        weight = self.model.model.get_input_embeddings().weight
        key = self._name, drawn, weight.dtype, weight.device
        if block is None and key not in self._taught:
            self._taught[key] = (
                self._generator.default_block()
                if offers(self._generator, BringsBlock) and not isinstance(self._generator, type)
                else default_block(traits_of(self._generator, GeneratorTraits).shape or "chain")
            )
        size: int | BlockSize = self._taught[key] if block is None else block
        measured = block is None and not isinstance(size, int)
        return SEEDED if measured and drawn and seeded else size

    # A call

    def _call(self, options: Mapping[str, Any]) -> _Call:
        """What options make that stand over the decoder's own.

        Raises:
            ConfigError: one of them cannot be what was meant.
        """
        check_names(options, list(self._options))
        options = {**self._options, **options}
        strings, ends = read_options(options)
        vocabulary = self.model.model.config.get_text_config().vocab_size
        if ends is not None and not all(0 <= end < vocabulary for end in ends):
            raise ConfigError(
                f"eos_token_id is {sorted(ends)}; the model's tokens go from 0 to {vocabulary - 1}",
                path="eos_token_id",
            )
        limit, ignored, seed = options["max_new_tokens"], options["ignore_eos"], options["seed"]
        done: Any = Stop(limit, strings, self.model if strings else None, ignored)
        if options["stopping_criteria"]:
            done = Criteria(done, options["stopping_criteria"])
        scoring = None
        if options["logprobs"] is not False:
            done = scoring = Scoring(done, 0 if options["logprobs"] is True else options["logprobs"])
        settings = {name: value for name, value in options.items() if name in SETTINGS}
        traits = traits_of(self._generator, GeneratorTraits)
        rule = (KSeq() if "iid" in traits.laws else Tree()) if traits.shape == "tree" else Speculative()
        pipeline = Pipeline(
            self._generator,
            self._target,
            rule,
            block=self._sized(options["block"], drawn=settings["temperature"] != 0, seeded=seed is not None),
            done=done,
            settings=settings,
            seed=secrets.randbits(63) if seed is None else int(seed),
            name="generate",
        )
        known = self.model.eos_ids if ends is None else ends
        return _Call(
            pipeline,
            strings,
            frozenset() if ignored else known,
            math.inf if limit is None else limit,
            scoring,
        )

    def _batch(
        self,
        prompts: Any,
        n: int,
        batch_size: int,
        attention_mask: Any,
        per_prompt: Sequence[Mapping[str, Any]] | None,
        options: Mapping[str, Any],
    ) -> _Batch:
        """The samples of a call's prompts, looked at before anything runs."""
        for name, value in (("n", n), ("batch_size", batch_size)):
            check_whole(name, value, "1 or more is needed")
        call, chat = self._call(options), {**self._options, **options}["chat"]
        inputs, single = read_prompts(prompts, attention_mask=attention_mask, chat=chat)
        calls = [call] * len(inputs)
        if per_prompt is not None:
            listed = isinstance(per_prompt, Sequence)
            if not listed or not all(isinstance(own, Mapping) for own in per_prompt):
                raise ConfigError(
                    f"per_prompt is {per_prompt!r:.80}; a list of mappings is needed, {{}} for the call's own options",
                    path="per_prompt",
                )
            if len(per_prompt) != len(inputs):
                raise ConfigError(
                    f"per_prompt has {len(per_prompt)} entries and there are {len(inputs)} prompts; each needs one, "
                    "{} for the call's own options",
                    path="per_prompt",
                )
            for place, own in enumerate(per_prompt):
                if "chat" in own:
                    raise ConfigError(
                        "is said by the prompt itself: {prompt: …, chat: false}",
                        path=f"per_prompt[{place}].chat",
                    )
                with below(f"per_prompt[{place}]"):
                    calls[place] = self._call({**options, **own}) if own else call
        tasks: list[Task] = []
        for place, (input, call) in enumerate(zip(inputs, calls, strict=True)):
            if call.ends and call.ends != self.model.eos_ids:
                input = {**input, "eos_ids": sorted(call.ends)}
            try:
                task = self._target.prepare(Task(id=str(place), input=input))
            except ConfigError as error:
                raise ConfigError(str(error), path="prompts" if single else f"prompts[{place}]") from error
            tasks += task, *[Task(id=f"{place}.{i}", input=task.input) for i in range(1, n)]
        return _Batch(tasks, [call for call in calls for _ in range(n)], single, n)

    def _answers(self, batch: _Batch, records: Sequence[TaskRecord]) -> Generation | list[One]:
        flat = [self._answer(*sample) for sample in zip(batch.calls, batch.tasks, records, strict=True)]
        n = batch.n
        answers: list[One] = [*flat] if n == 1 else [flat[i : i + n] for i in range(0, len(flat), n)]
        return answers[0] if batch.single else answers  # type: ignore[return-value]

    def _answer(self, call: _Call, task: Task, record: TaskRecord) -> Generation:
        outcome = record.outcome
        if outcome.status != "accepted":
            raise DraftVerifyError(f"prompt {task.id} ended as {outcome.status}: {outcome.reason}")
        ids: tuple[int, ...] = outcome.value
        ended = ids[-1] in call.ends
        decoded = self.model.decode(ids[:-1] if ended else ids)
        text = before_stop(decoded, call.strings)
        most = min(call.limit, positions_left(task))
        drafted = sum(index is not None for round in record.rounds for index in round.decision.joined)
        scoring = call.scoring
        return Generation(
            text=text,
            ids=ids,
            finish_reason="stop" if ended or text != decoded or len(ids) < most else "length",
            passes=sum(round.timing.passes for round in record.rounds),
            drafted=outcome.tally.trials,
            accepted=outcome.tally.accepted,
            share=drafted / len(ids),
            logprobs=None if scoring is None else tuple(scoring.of[task.id][: len(ids)]),
            top_logprobs=tuple(scoring.likeliest[task.id][: len(ids)])
            if scoring is not None and scoring.count
            else None,
        )


def generate(
    model: Any,
    prompts: Any,
    drafter: Any = "lookup",
    *,
    n: int = 1,
    batch_size: int = 8,
    attention_mask: Any = None,
    per_prompt: Sequence[Mapping[str, Any]] | None = None,
    **options: Any,
) -> Any:
    """Answer prompts with a language model, drafting ahead: the same answers as without, in fewer passes.

    At temperature 0, the default, and in float32 the tokens are those of transformers' greedy `generate`; above it they
    are drawn from the same distribution. Half precision rounds blocks otherwise than single tokens, see docs/tokens.md.

    Args:
        model: a transformers module (with `tokenizer=`), a `LocalModel`, a name of the catalogue, or a directory. What
            has a name is loaded for this call alone.
        prompts: a text, a list of messages ({role, content}), token ids (a list, an array, a tensor), or what a
            tokenizer returned; or a list of any of these, or an array [prompts, tokens] with its `attention_mask`.
        drafter: "lookup" (what followed the last time the text went like this), "suffix" (after the longest match),
            "forced" (what the schema or grammar leaves no choice about, and the lookup behind it), "mtp" (layers that
            the model brings), "none"; a generator; the directory of a trained one; or a smaller model of the same
            tokenizer, in any form that `model` may have.
        n: answers to each prompt, each drawn by itself.
        batch_size: how many answers are decoded at once.
        attention_mask: of an array of ids, 0 where it is padded.
        per_prompt: for each prompt options of its own, as of `Decoder.generate`.
        **options: `tokenizer`, `max_new_tokens` (256), `temperature` (0), `stop`, `chat`, `block`, `seed`, `logprobs`,
            `eos_token_id`, `ignore_eos`, `stopping_criteria` and the sampling settings, as `Decoder`'s.

    Returns:
        A `Generation` for a single prompt, a list for many; with n above 1 a list of n in the place of each.

    Raises:
        ConfigError: a prompt or an argument that cannot be what was meant, named by its path; nothing has run then.
        ResourceError: weights or packages are missing.
        PipelineError: the drafter does not fit the model.
        DraftVerifyError: a prompt failed while it was decoded.

    Examples:
        >>> from draftverify_tokens import generate
        >>> generate(
        ...     "smollm2-135m-instruct", "Name a river.", max_new_tokens=8
        ... ).finish_reason  # doctest: +SKIP
        'length'
    """
    with Decoder(model, drafter, **options) as decoder:
        return decoder.generate(
            prompts, n=n, batch_size=batch_size, attention_mask=attention_mask, per_prompt=per_prompt
        )


def stream(
    model: Any, prompt: Any, drafter: Any = "lookup", *, attention_mask: Any = None, **options: Any
) -> TextStream:
    """As `generate` for one prompt, piece by piece.

    Returns:
        An iterator of pieces of text; its `result` is the `Generation`.

    Raises:
        ConfigError, ResourceError, PipelineError: as `generate`, at the call.
        DraftVerifyError: while it is read: the task failed.
    """
    decoder = Decoder(model, drafter, **options)
    with ExitStack() as failing:
        failing.callback(decoder.close)
        text_stream = decoder.stream(prompt, attention_mask=attention_mask)
        text_stream._closing = decoder.close
        failing.pop_all()
    return text_stream


def _no_tokenizer(tokenizer: Any, path: str) -> None:
    if tokenizer is not None:
        raise ConfigError(f"tokenizer is given, and {path} has its own; leave it out", path="tokenizer")
