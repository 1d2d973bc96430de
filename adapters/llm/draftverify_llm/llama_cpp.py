"""Fast sampling on a CPU from a GGUF file, by llama.cpp: `llm.llama_cpp`."""

from __future__ import annotations

import asyncio
import mmap
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from draftverify.errors import ContractError, ResourceError
from draftverify_llm.family import family_of_weights
from draftverify_llm.requirements import check_least
from draftverify_llm.text import Completion, Prompt, as_messages, check_sampling, only_text, read_finish
from draftverify_llm.weights import gguf_file, need, on_disk

_METADATA = 64 << 20  # a GGUF file opens with its metadata; vocabularies make it a few megabytes


class LlamaCpp:
    """A GGUF model on llama.cpp, loaded on first use; several threads may ask at once and share its batch.

    It computes with the quantised weights, so its numbers differ slightly from those of `LocalModel`, which
    computes with the same weights dequantised.

    Args:
        weights: a catalogue name or the path of a .gguf file.
        context: the most tokens of one prompt and its answer together.
        parallel: how many answers are sampled in one batch.
        threads: CPU threads; None for as many as the process may run on. Where other work keeps the cores busy,
            fewer are faster: llama.cpp's threads wait for each other at every layer.
        family: the line of models that it is of, where the file does not say or says it wrongly; see `family`.
    """

    deterministic = (
        False  # the batch that a token shares, and a prompt read from the cache, change the rounding
    )

    def __init__(
        self,
        weights: str | Path,
        context: int = 4096,
        parallel: int = 4,
        threads: int | None = None,
        family: str | None = None,
    ) -> None:
        self.weights = weights
        self.context = context
        self.parallel = parallel
        self.threads = threads
        self._family = family
        self._lock = threading.Lock()
        self._server: Any = None
        self._chats = False

    def open(self) -> None:
        """Load the model, downloading it first where needed; nothing to do when it is loaded.

        Raises:
            ConfigError, ResourceError: as of `check`, or llama.cpp cannot read the file.
        """
        with self._lock:
            if self._server is None:
                self._server, self._chats = self._load()

    def check(self) -> None:
        """Refuse weights that cannot be found, or a missing package, before anything is loaded or fetched.

        Raises:
            ConfigError: a number is out of its range.
            ResourceError: they name no catalogue entry, files or hub id; or xllamacpp is not installed.
        """
        self._check()
        on_disk(str(self.weights))

    def close(self) -> None:
        """Let the model go; the next use loads it again."""
        with self._lock:
            self._server = None

    @property
    def family(self) -> str | None:
        """The line of models that it is of: as it was said, else by the catalogue, or by the name or architecture in
        the file's metadata. Loads nothing; None where there is no telling."""
        return self._family if self._family is not None else family_of_weights(str(self.weights))

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
        """Sample `n` answers, `parallel` at a time; see `TextModel.complete`.

        An answer that reaches the end of `context` ends there, with the reason "length".

        Raises:
            ResourceError: the prompt does not fit into `context`.
        """
        check_sampling(n, max_tokens, temperature, top_p, stop)
        server, chats = self._opened()
        base = secrets.randbits(31) if seed is None else seed
        # llama.cpp cuts the distribution by default (top-k 40, min-p .05); what was not asked for is switched off.
        request = {
            "max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "top_k": 0, "min_p": 0.0,
            "stop": list(stop), "logprobs": True, "top_logprobs": 1,
        }  # fmt: skip
        if chat and chats:
            request["messages"], handle = as_messages(prompt), server.handle_chat_completions
        else:
            request["prompt"], handle = only_text(prompt), server.handle_completions
        drawn: list[Completion] = []
        while len(drawn) < n:
            # Answer i of a request with several draws from seed + i, whichever way they are divided.
            some = {"n": min(self.parallel, n - len(drawn)), "seed": (base + len(drawn)) % (2**32 - 1)}
            drawn += self._read(handle({**request, **some}))
        return drawn

    async def acomplete(self, prompt: Prompt, **settings: Any) -> list[Completion]:
        """`complete` in a thread, which goes on to its end when the call is cancelled."""
        return await asyncio.to_thread(self.complete, prompt, **settings)

    def price(self, completions: Sequence[Completion]) -> float:
        """0: weights that run here charge nothing."""
        return 0.0

    def _opened(self) -> tuple[Any, bool]:
        with self._lock:
            if self._server is None:
                self._server, self._chats = self._load()
            return self._server, self._chats

    def _check(self) -> None:
        check_least(1, context=self.context, parallel=self.parallel, threads=self.threads)
        need("xllamacpp", doing=f"sampling from {self.weights} with llama.cpp")

    def _load(self) -> tuple[Any, bool]:
        self._check()
        path = gguf_file(str(self.weights))
        import xllamacpp  # type: ignore[import-untyped,unused-ignore]

        threads = self.threads or _cores()
        settings = xllamacpp.CommonParams()
        settings.model.path = str(path)
        settings.n_parallel = self.parallel
        settings.n_ctx = self.context * self.parallel  # llama.cpp divides it among the answers
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
        settings.verbosity = -1
        settings.cache_ram_mib = 0  # else up to 8 GB of old prompts are kept
        settings.force_pure_content_parser = True  # text that looks like a tool call stays text
        # The binding always listens on a local port; nobody else on this machine may ask there.
        settings.api_keys = [secrets.token_hex(32)]
        settings.ui = False
        try:
            return xllamacpp.Server(settings), _has_template(path)
        except RuntimeError as error:
            raise ResourceError(
                f"llama.cpp cannot load {path} with a context of {settings.n_ctx:,} tokens ({error}); "
                "is it a whole GGUF model, and is there memory for it?"
            ) from error

    def _read(self, reply: Mapping[str, Any]) -> list[Completion]:
        if "error" in reply:
            error = reply["error"]
            if error.get("type") == "exceed_context_size_error":
                raise ResourceError(
                    f"a prompt of {error.get('n_prompt_tokens')} tokens does not fit into {self.context}; "
                    "set a larger `context`"
                )
            raise ContractError(f"llama.cpp refused the request: {error.get('message', error)}")
        usage, completions = reply["usage"], []
        for index, choice in enumerate(reply["choices"]):
            tokens = (choice.get("logprobs") or {}).get("content") or []
            reason = read_finish(choice["finish_reason"])
            completions.append(
                Completion(
                    text=choice["text"] if "text" in choice else choice["message"]["content"] or "",
                    tokens_in=usage["prompt_tokens"] if index == 0 else 0,
                    # `usage` counts the first answer alone. Tokens of a stop string are in no answer's list.
                    tokens_out=usage["completion_tokens"] if index == 0 else len(tokens) + (reason == "stop"),
                    finish_reason=reason,
                    logprob=sum(token["logprob"] for token in tokens),
                    weighed=len(tokens),
                )
            )
        return completions


def _cores() -> int:
    """Cores that this process may run on, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_template(path: Path) -> bool:
    """Whether the file brings a chat template; without one llama.cpp would quietly use some other model's."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as bytes:
        return bytes.find(b"tokenizer.chat_template", 0, _METADATA) >= 0
