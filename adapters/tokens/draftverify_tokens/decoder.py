"""One call: a model, prompts in any form, and who drafts; texts and token ids come back. A thin layer over `Pipeline`.

`generate` and `stream` are for a call now and then. A `Decoder` is what they make and let go: kept over many calls it
also keeps what the block-size controller has measured, and what was compiled for a GPU.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Generator as PyGenerator
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from draftverify import (
    BlockSize,
    ConfigError,
    Context,
    DraftVerifyError,
    Generator,
    Pipeline,
    Task,
    TaskRecord,
)
from draftverify.protocols import BringsBlock
from draftverify.rules import KSeq, Speculative, Tree
from draftverify.traits import GeneratorTraits, has_methods, offers, traits_of
from draftverify_llm import CATALOGUE, LocalModel, before_stop
from draftverify_tokens.block_size import default_block
from draftverify_tokens.draft_model import DraftModel
from draftverify_tokens.eagle import Eagle
from draftverify_tokens.eagle_config import is_eagle
from draftverify_tokens.first_of import FirstOf
from draftverify_tokens.forced import Forced
from draftverify_tokens.models import TokenModel
from draftverify_tokens.no_draft import NoDraft
from draftverify_tokens.prompt_forms import read_prompts
from draftverify_tokens.prompt_lookup import PromptLookup
from draftverify_tokens.reader import BlockReading
from draftverify_tokens.sampling import SETTINGS
from draftverify_tokens.stopping import Stop
from draftverify_tokens.suffix import Suffix
from draftverify_tokens.target import Target
from draftverify_tokens.text import accepted_text

__all__ = ["DRAFTERS", "Decoder", "Generation", "TextStream", "generate", "stream"]

DRAFTERS: dict[str, Callable[[TokenModel], Generator]] = {
    "lookup": lambda target: PromptLookup(),
    "suffix": lambda target: Suffix(),
    "forced": lambda target: FirstOf([Forced(target), PromptLookup()]),
    "none": lambda target: NoDraft(),
}
"""Drafters by name, made for a target's model."""

SEEDED = 8
"""The block of draws that are to come out the same again: one that is measured depends on the clock."""

_CONTROLLERS: WeakKeyDictionary[Any, dict[Any, BlockSize]] = WeakKeyDictionary()
"""By the module: for each drafter with a name, way to choose, type and device, what calls in this process have taught
the block size."""

ELSEWHERE = {
    "assistant_model": "drafter",
    "batch_size": "batch_size of generate",
    "device": "model=LocalModel(…, device=…)",
    "do_sample": "temperature, where 0 takes the likeliest token",
    "dtype": "model=LocalModel(…, dtype=…)",
    "gamma": "block",
    "guided_json": "json_schema",
    "max_length": "max_new_tokens",
    "max_tokens": "max_new_tokens",
    "n": "n of generate",
    "num_assistant_tokens": "block",
    "num_return_sequences": "n",
    "prompt_lookup_num_tokens": "drafter='lookup', and block for a fixed number of tokens",
    "stop_strings": "stop",
    "stream": "the function stream(), which yields text",
    "streamer": "the function stream(), which yields text",
}
"""What other libraries call it."""

One: TypeAlias = "Generation | list[Generation]"


@dataclass(frozen=True, slots=True)
class Generation:
    """One answer.

    Args:
        text: without the end token, and up to a stop string, which is not in it.
        ids: the answer's tokens alone, all of them: the end token, or those of the stop string, are the last.
        finish_reason: "stop" (an end token or a stop string), "length" (`max_new_tokens`, or the model has no position
            left).
        passes: forward passes of the target, the one that read the prompt among them.
        drafted: drafted tokens that the target judged.
        accepted: those of them that were kept.
        share: of `ids` the share that the drafter wrote; the others are the target's own.
        logprobs: for each of `ids` the natural logarithm of the probability that the target itself gives it after
            what stands before it: the log-softmax of its logits, whatever temperature, filters, penalties or grammar
            it was chosen under. None unless asked for.
    """

    text: str
    ids: tuple[int, ...]
    finish_reason: Literal["stop", "length"]
    passes: int
    drafted: int
    accepted: int
    share: float
    logprobs: tuple[float, ...] | None = None

    @property
    def acceptance(self) -> float | None:
        """accepted / drafted; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


class Decoder:
    """A model with a drafter and settings, ready for many calls; the arguments are those of `generate`.

    What it loads itself (a model given by name) it lets go in `close`, or at the end of a `with`.

    Args:
        model: a transformers module (with `tokenizer`; it is read as in eval mode, and stays as it is), a `LocalModel`
            or another TokenModel, a name of the catalogue, or a directory.
        drafter: a name of `DRAFTERS`, a generator, the directory of a trained layer (`Eagle`), or a smaller model
            in any form that `model` may have.
        tokenizer: of a module, which does not know its own.
        max_new_tokens: the most tokens in an answer; None: as many as the model has positions for.
        temperature: 0 takes the likeliest token each time, as transformers' greedy decoding. The sampling settings that
            come with a model's files are not read.
        stop: a text, or several, that end an answer.
        chat: whether a text goes through the chat template as one user turn, where the tokenizer has one.
        block: tokens to draft at once, or a block size; None: the drafter's own, which is measured and drafts nothing
            where it does not pay. Of a seeded draw it is 8: which tokens a number draws depends on where blocks begin.
        seed: the same seed draws the same tokens for the same place among the prompts; None for any.
        logprobs: whether to give the tokens' log-probabilities; it costs a look at each emitted token's row.
        settings: as a pipeline's: top_k, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty,
            logit_bias, processors, json_schema, regex, grammar.

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
        logprobs: bool = False,
        **settings: Any,
    ) -> None:
        _check_names(settings)
        strings = tuple(stop) if isinstance(stop, Sequence) and not isinstance(stop, str) else (stop,)
        if not all(isinstance(string, str) and string for string in strings):
            raise ConfigError(
                f"stop is {stop!r}; texts with a character at least are needed, or () for none", path="stop"
            )
        if max_new_tokens is not None and (type(max_new_tokens) is not int or max_new_tokens < 1):
            raise ConfigError(
                f"max_new_tokens is {max_new_tokens!r}; 1 or more is needed, or None for as many as fit",
                path="max_new_tokens",
            )
        self.chat, self.seed, self.logprobs, self.strings = chat, seed, logprobs, strings
        self._closing = ExitStack()
        with ExitStack() as failing:
            failing.callback(self.close)
            self.model = self._loaded(model, tokenizer, "model")
            self._stop = Stop(max_new_tokens, strings, self.model if strings else None)
            self._target = (ScoredTarget if logprobs else Target)(self.model)
            self._settings = {"temperature": temperature, **settings}
            self._generator = self._drafting(drafter)
            name = drafter if isinstance(drafter, str) and drafter in DRAFTERS else None
            self._block = self._sized(block, name, drawn=temperature != 0)
            self.pipeline = self._made(self._stop)
            self.pipeline.open()
            self._closing.callback(self.pipeline.close)
            failing.pop_all()

    def generate(
        self, prompts: Any, *, n: int = 1, batch_size: int = 8, attention_mask: Any = None
    ) -> Generation | list[One]:
        """Answer prompts; see the function `generate`."""
        for name, value in (("n", n), ("batch_size", batch_size)):
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} is {value!r}; 1 or more is needed", path=name)
        inputs, single = read_prompts(prompts, attention_mask=attention_mask, chat=self.chat)
        tasks = [task for place, input in enumerate(inputs) for task in self._tasks(place, input, single, n)]
        pipeline, scoring = self._running()
        records = pipeline.record(tasks, size=batch_size)
        flat = [self._made_of(*pair, scoring) for pair in zip(tasks, records, strict=True)]
        answers: list[One] = [*flat] if n == 1 else [flat[i : i + n] for i in range(0, len(flat), n)]
        return answers[0] if single else answers  # type: ignore[return-value]

    def stream(self, prompt: Any, *, attention_mask: Any = None) -> TextStream:
        """Answer one prompt, piece by piece; see the function `stream`."""
        inputs, single = read_prompts(prompt, attention_mask=attention_mask, chat=self.chat)
        if not single and len(inputs) != 1:
            raise ConfigError(
                f"stream takes one prompt, not {len(inputs)}; generate decodes many in a batch", path="prompt"
            )
        return TextStream(self, self._tasks(0, inputs[0], True, 1)[0])

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
                f"there is no drafter {drafter!r}; {meant} Else give a generator, or a small model: a name of the "
                "catalogue, a directory, a LocalModel",
                path="drafter",
            )
        if isinstance(drafter, (str, Path)) and is_eagle(Path(drafter)):
            return Eagle(self.model, Path(drafter))
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

    def _sized(self, block: int | BlockSize | None, name: str | None, *, drawn: bool) -> int | BlockSize:
        """The block size: of a drafter with a name the controller that earlier calls with this model have taught."""
        if block is not None:
            return block
        size: int | BlockSize = (
            self._generator.default_block()
            if offers(self._generator, BringsBlock) and not isinstance(self._generator, type)
            else default_block(traits_of(self._generator, GeneratorTraits).shape or "chain")
        )
        if isinstance(size, int):
            return size
        if drawn and self.seed is not None:
            return SEEDED
        if name is None:
            return size
        weight = self.model.model.get_input_embeddings().weight
        taught = _CONTROLLERS.setdefault(self.model.model, {})
        return taught.setdefault((name, drawn, weight.dtype, weight.device), size)

    def _made(self, done: Any) -> Pipeline:
        traits = traits_of(self._generator, GeneratorTraits)
        rule = (KSeq() if "iid" in traits.laws else Tree()) if traits.shape == "tree" else Speculative()
        return Pipeline(
            self._generator,
            self._target,
            rule,
            block=self._block,
            done=done,
            settings=self._settings,
            seed=secrets.randbits(63) if self.seed is None else self.seed,
            name="generate",
        )

    # A call

    def _running(self) -> tuple[Pipeline, Scoring | None]:
        """The pipeline of one call: with a seed of its own where none was given, and its own log-probabilities."""
        if not self.logprobs:
            return self._made(self._stop), None
        scoring = Scoring(self._stop)
        return self._made(scoring), scoring

    def _tasks(self, place: int, input: Mapping[str, Any], single: bool, n: int) -> list[Task]:
        """The tasks of one prompt's samples, its tokens looked at once and before anything runs."""
        try:
            task = self._target.prepare(Task(id=str(place), input=input))
        except ConfigError as error:
            raise ConfigError(str(error), path="prompts" if single else f"prompts[{place}]") from error
        return [task, *[Task(id=f"{place}.{i}", input=task.input) for i in range(1, n)]]

    def _made_of(self, task: Task, record: TaskRecord, scoring: Scoring | None) -> Generation:
        outcome = record.outcome
        if outcome.status != "accepted":
            raise DraftVerifyError(f"prompt {task.id} ended as {outcome.status}: {outcome.reason}")
        ids: tuple[int, ...] = outcome.value
        ended = ids[-1] in self.model.eos_ids
        decoded = self.model.decode(ids[:-1] if ended else ids)
        text = before_stop(decoded, self.strings)
        drafted = sum(index is not None for round in record.rounds for index in round.decision.joined)
        return Generation(
            text=text,
            ids=ids,
            finish_reason="length" if text == decoded and not ended else "stop",
            passes=sum(round.timing.passes for round in record.rounds),
            drafted=outcome.tally.trials,
            accepted=outcome.tally.accepted,
            share=drafted / len(ids),
            logprobs=None if scoring is None else tuple(scoring.of[task.id][: len(ids)]),
        )


class TextStream:
    """The text of an answer as it is made: an iterator of pieces, none empty; `result` is the whole of it.

    No piece holds half a character or part of a stop string; together they are `result.text`. Closed early, or left
    at the end of a `with`, it ends the decoding.
    """

    def __init__(self, decoder: Decoder, task: Task, closing: Callable[[], None] = lambda: None) -> None:
        self._decoder = decoder
        self._task = task
        self._closing = closing
        self._pieces = self._read()
        self._result: Generation | None = None

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the decoding; what was not read is not made."""
        self._pieces.close()
        self._closing()

    @property
    def result(self) -> Generation:
        """The whole answer; what is left of the stream is read first.

        Raises:
            DraftVerifyError: the stream was closed before its end, or the task failed.
        """
        for _ in self:
            pass
        if self._result is None:
            raise DraftVerifyError("the stream was closed, or failed, before its end; there is no result")
        return self._result

    def _read(self) -> PyGenerator[str, None, None]:
        decoder = self._decoder
        try:
            pipeline, scoring = decoder._running()
            text, ended = "", list[TaskRecord]()
            for piece in accepted_text(pipeline, self._task, ended, decoder.model.eos_ids):
                text += piece
                ready = len(text) - _held_back(text, decoder.strings)
                if ready:
                    yield text[:ready]
                    text = text[ready:]
            text = before_stop(text, decoder.strings)
            if text:
                yield text
            self._result = decoder._made_of(self._task, ended[0], scoring)
        finally:
            self._closing()


def _held_back(text: str, strings: Sequence[str]) -> int:
    """How many characters at the text's end may be of a stop string."""
    held = [len(text) - place for string in strings if (place := text.find(string)) >= 0]
    for string in strings:
        begun = (n for n in range(min(len(string) - 1, len(text)), 0, -1) if text.endswith(string[:n]))
        held.append(next(begun, 0))
    return max(held, default=0)


class ScoredTarget(Target):
    """A target that leaves its logits, before any setting, in the session's scratch until its next pass."""

    def _note(self, contexts: Sequence[Context], reading: BlockReading) -> None:
        for context, rows in zip(contexts, reading.logits.split(reading.counts), strict=True):
            context.scratch[ScoredTarget] = rows


class Scoring:
    """A stopping rule that notes what a `ScoredTarget` thinks of each value that joins, and asks another when to stop.

    Args:
        stop: the other one.

    Attributes:
        of: by task, the log-probability of each token so far; the last of them may be cut off by the other's word.
    """

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.of: dict[str, list[float]] = {}

    def __call__(self, context: Context, new: tuple[Any, ...]) -> int | None:
        """The other's word."""
        latest, logits = context.last, context.scratch[ScoredTarget]
        assert latest is not None
        path, parents = latest.decision.kept, latest.proposal.parents
        rows = [parents[index] + 1 for index in path] + [path[-1] + 1 if path else 0]
        logprobs = logits[rows[: len(new)]].float().log_softmax(-1)
        values = [float(row[token]) for row, token in zip(logprobs, new, strict=True)]
        self.of.setdefault(context.task.id, []).extend(values)
        return self.stop(context, new)


def generate(
    model: Any,
    prompts: Any,
    drafter: Any = "lookup",
    *,
    n: int = 1,
    batch_size: int = 8,
    attention_mask: Any = None,
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
            "forced" (what the schema or grammar leaves no choice about, and the lookup behind it), "none"; a
            generator; or a smaller model of the same tokenizer, in any form that `model` may have.
        n: answers to each prompt, each drawn by itself.
        batch_size: how many answers are decoded at once.
        attention_mask: of an array of ids, 0 where it is padded.
        **options: `tokenizer`, `max_new_tokens` (256), `temperature` (0), `stop`, `chat`, `block`, `seed`, `logprobs`
            the sampling settings, as `Decoder`'s.

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
        return decoder.generate(prompts, n=n, batch_size=batch_size, attention_mask=attention_mask)


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


def _check_names(settings: Mapping[str, Any]) -> None:
    names = Decoder.__init__.__kwdefaults__ or {}
    for name in settings:
        if name in SETTINGS:
            continue
        meant = ELSEWHERE.get(name) or next(
            iter(get_close_matches(name, ["drafter", *names, *SETTINGS], n=1)), None
        )
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(sorted({*names, *SETTINGS}))}"
        raise ConfigError(f"there is no argument {name!r}; {hint}", path=name)
