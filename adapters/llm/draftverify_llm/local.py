"""A model whose weights run in this process, on torch: `llm.local`."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from draftverify.errors import ConfigError
from draftverify_llm.family import family_of_config, family_of_weights
from draftverify_llm.sampling import sample, window_of
from draftverify_llm.text import Completion, Prompt, as_messages, check_sampling, only_text, read_prompt
from draftverify_llm.weights import load_transformers, need, on_disk


class LocalModel:
    """A causal language model and its tokenizer, loaded on first use.

    Args:
        weights: a catalogue name, a model directory, a .gguf file, or a hub id. In YAML a path that begins with ./
            or ../ is relative to the file.
        dtype: the type to compute in; "auto" is the type in which the weights are stored, which is float32 for
            a GGUF file, unless the catalogue stores it smaller. In float32 a block and single steps give the same
            greedy tokens; bfloat16 and float16 round differently at different block lengths.
        device: a torch device; "auto" is "cuda" where there is one, else "cpu".
        packed: for a model in bfloat16 on a CPU: "bfloat16" orders the weights once as products read them (on a
            processor that has no such product they stay as they are, and the log says so); "int4" rounds the linear
            layers' to four bits, which makes it another model; "int4_head" its head's too, all but those of each
            row's 64 likeliest tokens: for a drafter. None: as they are. A packed model cannot be trained, moved or
            saved.
        at_once: the most answers that are sampled in one batch, which bounds the memory; more are sampled batch after
            batch.
        family: the line of models that it is of, where its files do not say or say it wrongly; see `family`.
    """

    deterministic = True
    continues_turns = True

    def __init__(
        self,
        weights: str | Path,
        dtype: Literal["float32", "bfloat16", "float16", "auto"] = "auto",
        device: str = "auto",
        packed: Literal["bfloat16", "int4", "int4_head"] | None = None,
        at_once: int = 64,
        family: str | None = None,
    ) -> None:
        self.weights = weights
        self.dtype = dtype
        self.device = device
        self.packed = packed
        self.at_once = at_once
        self._family = family
        self._lock = threading.RLock()
        self._loaded: tuple[Any, Any] | None = None
        self._live = False
        self._owned = True
        self._vocabulary: str | None = None

    @classmethod
    def from_module(cls, model: Any, tokenizer: Any, *, own: bool = False) -> LocalModel:
        """A model that is loaded already. It is read in eval mode, and otherwise stays as it is.

        Args:
            model: a transformers causal language model, or any module with its call signature and `config`.
            tokenizer: its transformers tokenizer.
            own: the weights may be laid anew in memory, as those of a model that is loaded by name, so that layers
                that read the same input are one product. Parameters stay the same objects; views of their memory that
                somebody keeps (a flat buffer, an array) are the model's no more. What a task has read may be lent to
                later ones; which edits are seen between them is in docs/tokens.md.

        Returns:
            A LocalModel whose `close` leaves the module alone.

        Raises:
            ResourceError: torch or transformers is too old.
        """
        need("torch", "transformers", doing="a language model in this process")
        instance = cls("(live module)")
        if own:
            from draftverify_llm.side_by_side import lay_side_by_side

            lay_side_by_side(model)
        instance._loaded = (model, tokenizer)
        instance._live = True
        instance._owned = own
        return instance

    def open(self) -> None:
        """Load the weights, downloading and converting them first where needed; nothing to do when loaded.

        Raises:
            ResourceError: the weights, a package or the device is missing.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()

    def check(self) -> None:
        """Refuse weights that cannot be found, or a missing package, before anything is loaded or fetched.

        Raises:
            ResourceError: they name no catalogue entry, files or hub id; or torch or transformers is not installed.
        """
        if not self._live:
            need("torch", "transformers", doing=f"loading {self.weights}")
            on_disk(str(self.weights))

    def close(self) -> None:
        """Let the weights go; the next use loads them again."""
        with self._lock:
            if not self._live:
                self._loaded = None

    @property
    def live(self) -> bool:
        """Whether it was made `from_module`, so that no files stand behind it."""
        return self._live

    @property
    def owned(self) -> bool:
        """Whether the weights are the library's own: loaded here, or given away with `own`."""
        return self._owned

    @property
    def model(self) -> Any:
        """The torch module, on its device; one that was loaded here is in eval mode."""
        return self._open()[0]

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer."""
        return self._open()[1]

    @property
    def family(self) -> str | None:
        """The line of models that it is of: as it was said, else by the catalogue, by the name that its files were
        saved under, or by its architecture. Loads nothing; None where there is no telling."""
        if self._family is not None:
            return self._family
        if self._live and self._loaded is not None:
            return family_of_config(self._loaded[0].config)
        return family_of_weights(str(self.weights))

    @property
    def vocabulary(self) -> str:
        """The tokenizer's identity: models of one vocabulary give every token the same id."""
        if self._vocabulary is None:
            ids = sorted(self.tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0]))
            self._vocabulary = hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]
        return self._vocabulary

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end an answer, of the tokenizer and of the model's generation settings."""
        model, tokenizer = self._open()
        settings = getattr(model, "generation_config", None) or model.config
        ends = getattr(settings, "eos_token_id", None)
        end_ids = set(ends if isinstance(ends, (list, tuple)) else [ends])
        return frozenset(int(id) for id in end_ids | {tokenizer.eos_token_id} if id is not None)

    def encode_prompt(self, input: Mapping[str, Any]) -> list[int]:
        """Token ids of a task's prompt.

        Args:
            input: a task's input with `messages` (turns) or with `prompt` (text). Text goes through the chat
                template as one user turn when the tokenizer has a template, unless the input says `chat: false`.
                Turns that end with the assistant's leave that one open, to be continued.

        Returns:
            The ids, the template's opening of the answer included.

        Raises:
            ConfigError: no prompt is there, it holds half a character, it has more than `most_characters`, or turns
                were given to a model that has no chat template, or one that refuses them.
        """
        prompt, tokenizer = read_prompt(input), self.tokenizer
        characters = sum(len(turn["content"]) for turn in as_messages(prompt))
        if characters > self.most_characters:  # to tokenise it would hold others up for seconds
            raise ConfigError(
                f"the prompt has {characters} characters, and the model takes {self.most_characters} at most"
            )
        if input.get("chat", True) is False or not tokenizer.chat_template:
            return list(tokenizer(_whole(only_text(prompt))).input_ids)
        turns = as_messages(prompt)
        begun = turns.pop()["content"] if turns[-1]["role"] == "assistant" else ""
        try:
            text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False) + begun
        except Exception as error:  # a template's own refusal, or jinja's of the template
            roles = ", ".join(turn["role"] for turn in as_messages(prompt))
            raise ConfigError(
                f"the model's chat template does not take these turns ({roles}): {type(error).__name__}: {error}"
            ) from error
        return list(tokenizer(_whole(text), add_special_tokens=False).input_ids)

    @cached_property
    def most_characters(self) -> float:
        """Characters beyond which no prompt fits: of as many tokens as the model takes, all of them the longest that
        there is. Infinite where it is not known how many it takes."""
        return window_of(self.model) * max(map(len, self.tokenizer.get_vocab()))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""
        return str(
            self.tokenizer.decode(
                [int(id) for id in ids], skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def complete(
        self,
        prompt: Prompt,
        *,
        n: int = 1,
        max_tokens: int = 256,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int | None = None,
        chat: bool = True,
    ) -> list[Completion]:
        """Sample `n` answers in one batch, each from a random stream of its own; see `TextModel.complete`."""
        return self.complete_many(
            [prompt], n=[n], max_tokens=max_tokens, temperature=temperature, top_p=top_p, stop=stop, seeds=[seed],
            chat=chat,
        )[0]  # fmt: skip

    def complete_many(
        self,
        prompts: Sequence[Prompt],
        *,
        n: Sequence[int],
        seeds: Sequence[int | None],
        max_tokens: int = 256,
        temperature: float = 1.0,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        chat: bool = True,
    ) -> list[list[Completion]]:
        """Sample `n[k]` answers to prompt k with `seeds[k]`, of all prompts in one batch; see `BatchTextModel`.

        Raises:
            ConfigError: an argument is out of its range, or a prompt is empty or longer than the model takes.
        """
        for count in n:
            check_sampling(count, max_tokens, temperature, top_p, stop)
        if self.at_once < 1:
            raise ConfigError(f"at_once is {self.at_once}; at least 1 is needed", path="at_once")
        prompt_ids = [
            self.encode_prompt({"prompt" if isinstance(prompt, str) else "messages": prompt, "chat": chat})
            for prompt in prompts
        ]
        if not all(prompt_ids):
            raise ConfigError("a prompt is empty, and the model puts nothing of its own before it")
        window, longest = window_of(self.model), max(map(len, prompt_ids), default=0)
        if longest > window:
            raise ConfigError(f"the prompt has {longest} tokens, and the model takes {window} at most")
        return sample(
            self.model, prompt_ids, n=n, max_tokens=max_tokens, temperature=temperature, top_p=top_p, seeds=seeds,
            ends=self.eos_ids, decode=self.decode, stop=tuple(stop), at_once=self.at_once,
        )  # fmt: skip

    async def acomplete(self, prompt: Prompt, **settings: Any) -> list[Completion]:
        """`complete` in a thread, which goes on to its end when the call is cancelled."""
        return await asyncio.to_thread(self.complete, prompt, **settings)

    def price(self, completions: Sequence[Completion]) -> float:
        """0: weights that run here charge nothing."""
        return 0.0

    def _open(self) -> tuple[Any, Any]:
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                self.open()
                loaded = self._loaded
        assert loaded is not None
        return loaded

    def _load(self) -> tuple[Any, Any]:
        model, tokenizer = load_transformers(
            str(self.weights), self.device, "AutoModelForCausalLM", self.dtype
        )
        if self.packed is not None:
            from draftverify_llm.packed import pack

            pack(model, self.packed)
        else:
            from draftverify_llm.side_by_side import lay_side_by_side

            lay_side_by_side(model)
        return model, tokenizer


def _whole(text: str) -> str:
    """The text, unless a character of it is half of a pair, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"the prompt holds half a character (a lone surrogate, {text[error.start]!a}) at place {error.start}; it "
            "was cut, or decoded wrongly"
        ) from error
    return text
