"""Corpora: where documents come from, ids that stay, and an index that does no work twice."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import draftverify_retrieval.documents as documents_module
from draftverify import ConfigError, ResourceError
from draftverify_retrieval import Corpus, DamagedIndexError, kept_documents
from draftverify_retrieval.passages import Passages

from .corpora import ANIMALS, corpus_of, passages, write_files, write_lines

NAMES = st.dictionaries(
    st.sampled_from("abcdef"),
    st.text(alphabet="xyz .\n", min_size=1, max_size=40).filter(str.strip),
    min_size=1,
)


def count_splits(monkeypatch) -> list[str]:
    """The ids of the documents that are split from now on."""
    done: list[str] = []
    inner = kept_documents._split
    monkeypatch.setattr(
        kept_documents, "_split", lambda document, how: done.append(document.id) or inner(document, how)
    )
    return done


def test_a_directory_is_read_with_headings_places_and_ids(tmp_path):
    """Text, Markdown below folders; hidden and others are left out; texts are what is indexed. A text names it too."""
    (tmp_path / "b").mkdir()
    (tmp_path / "a.md").write_text("# Top\nOne.\n\nTwo.\n", encoding="utf-8")
    (tmp_path / "b/c.txt").write_text("\ufeffÜber.\n", encoding="utf-8")
    (tmp_path / ".hidden.txt").write_text("secret")
    (tmp_path / "d.bin").write_bytes(b"\xff")
    corpus = Corpus(str(tmp_path))  # type: ignore[arg-type]
    found = passages(corpus)
    assert isinstance(corpus, Passages)
    assert [(each["document"], each["text"], each.get("heading")) for each in found] == [
        ("a.md", "One.", "Top"), ("a.md", "Two.", "Top"), ("b/c.txt", "Über.", None),
    ]  # fmt: skip
    assert corpus.texts() == ["Top\nOne.", "Top\nTwo.", "Über."]
    text = (tmp_path / "a.md").read_text()
    assert all(text[each["start"] : each["end"]] == each["text"] for each in found[:2])
    assert len({each["id"] for each in found}) == 3


def test_lines_are_read_by_their_fields(tmp_path):
    """A document a line, under other names; whole documents keep their ids, so that judgements name them."""
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"_id": "d7", "title": "Tea", "text": "Hot."}\n\n{"_id": 8, "text": "Cold."}\n')
    corpus = Corpus(path, split="document", fields={"id": "_id", "heading": "title"})
    assert passages(corpus) == [
        {"id": "d7", "text": "Hot.", "document": "d7", "start": 0, "end": 4, "heading": "Tea"},
        {"id": "8", "text": "Cold.", "document": "8", "start": 0, "end": 5},
    ]


def test_ids_stay_where_other_documents_and_paragraphs_change(tmp_path):
    """An id is the document's and the passage's words'; one that stands twice gets a number."""
    folder = write_files(tmp_path / "docs", {"a": "One.\n\nTwo.\n\nTwo.", "b": "One."})
    before = {(each["document"], each["start"]): each["id"] for each in passages(Corpus(folder))}
    assert len(set(before.values())) == 4
    write_files(folder, {"a": "New.\n\nOne.\n\nTwo.\n\nTwo.", "b": "Other.", "c": "One."})
    after = [each["id"] for each in passages(Corpus(folder)) if each["document"] == "a.txt"]
    assert after[1:] == [before["a.txt", 0], before["a.txt", 6], before["a.txt", 12]]


def test_an_index_opens_again_without_splitting(tmp_path, monkeypatch):
    """The second time nothing is split, and the passages are the same."""
    folder = write_files(tmp_path / "docs", ANIMALS)
    first = passages(Corpus(folder, split="sentence", index=tmp_path / "index"))
    done = count_splits(monkeypatch)
    again = Corpus(folder, split="sentence", index=tmp_path / "index")
    assert passages(again) == first
    assert done == []
    assert again.changes.unchanged == len(ANIMALS)


def test_only_changed_files_are_split_again(tmp_path, monkeypatch):
    """One is edited, one added, one deleted, and one is written again with the same words."""
    folder = write_files(tmp_path / "docs", ANIMALS)
    Corpus(folder, index=tmp_path / "index").open()
    done = count_splits(monkeypatch)
    write_files(
        folder, {**{k: v for k, v in ANIMALS.items() if k != "rain"}, "tea": "Tea is hot.", "milk": "White."}
    )
    corpus = Corpus(folder, index=tmp_path / "index")
    corpus.open()
    assert sorted(done) == ["milk.txt", "tea.txt"]
    changes = corpus.changes
    assert (changes.added, changes.changed, changes.removed, changes.unchanged) == (
        ("milk.txt",), ("tea.txt",), ("rain.txt",), 3,
    )  # fmt: skip


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    states=st.lists(NAMES, min_size=1, max_size=5), by=st.sampled_from(["paragraph", "sentence", "window"])
)
def test_an_index_after_any_changes_is_the_index_made_anew(tmp_path_factory, states, by):
    """Adds, edits and deletes in any order: rows, ids and words are those of a fresh corpus."""
    folder = tmp_path_factory.mktemp("corpus")
    for state in states:
        write_files(folder / "docs", state)
        kept = Corpus(folder / "docs", split=by, index=folder / "index")
        assert passages(kept) == passages(Corpus(folder / "docs", split=by))


LINES = st.lists(
    st.sampled_from(
        ['{"id": "@", "text": "one"}', '{"id": "@", "text": "two"}', '{"id": "@", "text":', "", " "]
    ),
    max_size=6,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states=st.lists(st.tuples(LINES, st.booleans()), min_size=2, max_size=4), ends=st.booleans())
@example(states=[(['{"id": "@", "text":'], False), ([" "], True)], ends=False)  # a space behind a bad line
def test_lines_after_any_changes_are_the_index_made_anew(tmp_path_factory, states, ends):
    """Appended to, whole or in the middle of a line, or written again: passages, bad lines and their numbers."""
    folder = tmp_path_factory.mktemp("lines")
    path, head = folder / "documents.jsonl", '{"id": "always", "text": "here"}\n'
    text = head
    for number, (lines, appended) in enumerate(states):
        more = "".join(line.replace("@", f"{number}-{place}") + "\n" for place, line in enumerate(lines))
        text = (text if appended else head) + (more if ends else more.removesuffix("\n"))
        path.write_text(text)
        kept, fresh = Corpus(path, index=folder / "index"), Corpus(path)
        assert passages(kept) == passages(fresh)
        assert kept.changes.bad == fresh.changes.bad


def test_lines_that_were_added_are_read_alone(tmp_path, monkeypatch):
    """What stands before them is one comparison of bytes; under other fields all are read again."""
    path = write_lines(tmp_path / "documents.jsonl", {**ANIMALS, "title": "x"})
    Corpus(path, split="document", index=tmp_path / "index").open()
    with open(path, "a") as file:
        file.write('{"id": "milk", "text": "White.", "heading": "Drinks"}\n')
    read: list[bytes] = []
    inner = documents_module.digest_of
    monkeypatch.setattr(documents_module, "digest_of", lambda line: read.append(line) or inner(line))
    corpus = Corpus(path, split="document", index=tmp_path / "index")
    assert corpus.passage(6)["text"] == "White."
    assert (len(read), corpus.changes.added, corpus.changes.unchanged) == (1, ("milk",), 6)
    other = Corpus(path, split="document", fields={"heading": "title"}, index=tmp_path / "index")
    assert "heading" not in other.passage(6)


def test_a_thousand_deletes(tmp_path):
    """They leave the others, in order."""
    documents = {f"{number:04}": f"Document number {number}." for number in range(1200)}
    path = write_lines(tmp_path / "documents.jsonl", documents)
    Corpus(path, index=tmp_path / "index").open()
    left = {id: text for id, text in documents.items() if int(id) % 6 == 0}
    write_lines(path, left)
    corpus = Corpus(path, index=tmp_path / "index")
    assert [each["document"] for each in passages(corpus)] == list(left)
    assert len(corpus.changes.removed) == 1000
    again = Corpus(path, index=tmp_path / "index")
    assert (again.changes.removed, again.changes.unchanged) == ((), 200)
    assert b"number 1." not in b"".join(each.read_bytes() for each in (tmp_path / "index").glob("passages.*"))


def test_another_splitting_is_refused(tmp_path):
    """An index is of one splitting; the message names both, and the directory."""
    corpus_of(tmp_path, split="sentence", index=tmp_path / "index").open()
    with pytest.raises(ConfigError, match=r"index.*sentence 1/0 v2.*paragraph 1/0 v2"):
        corpus_of(tmp_path, split="paragraph", index=tmp_path / "index").open()


def test_an_index_is_not_made_among_other_things(tmp_path):
    """A directory with files of its own, or a file, is left alone."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/cat.jpg").write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"cat\.jpg"):
        corpus_of(tmp_path, index=tmp_path / "photos").open()
    assert [each.name for each in (tmp_path / "photos").iterdir()] == ["cat.jpg"]
    with pytest.raises(ConfigError, match="a file"):
        corpus_of(tmp_path, index=tmp_path / "photos/cat.jpg").open()


def test_an_index_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    """A directory without the right to write is named."""

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(ResourceError, match=r"closed.*Permission denied"):
        corpus_of(tmp_path, index=tmp_path / "closed").open()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": 1, "text": "\xff"}', r":2: byte 19 \(line 1\) is no UTF-8"),
        (b'{"id": 1', ":2: no JSON object"),
        (b"[1]", ":2: no JSON object: Expected `object`, got `array`"),
        (b'{"text": "x"}', ":2: .*required field `id`; the line has text"),
        (b'{"id": 1, "txt": "x"}', ":2: .*required field `text`; the line has id, txt"),
        (b'{"id": 1, "text": 3}', ":2: Expected `str`, got `int` - at `\\$.text`"),
        (b'{"id": [1], "text": "x"}', r":2: Expected `int \| str`, got `array` - at `\$.id`"),
        (b'{"id": 1, "text": "\\ud800"}', ":2: half of a surrogate pair"),
        (b'{"id": 1, "text": "x", "metadata": {"a": "\\ud800"}}', ":2: half of a surrogate pair"),
        (
            b'{"id": 1, "text": "x", "metadata": {"a": 99999999999999999999999}}',
            ":2: a number of the metadata",
        ),
        (b'{"id": true, "text": "x"}', r":2: Expected `int \| str`, got `bool`"),
        (b'{"id": "same", "text": "x"}', "two documents have the id 'same'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    """With its place and what is wrong there."""
    path = tmp_path / "documents.jsonl"
    path.write_bytes(b'{"id": "same", "text": "fine"}\n' + line + b"\n")
    with pytest.raises(ConfigError, match=message):
        Corpus(path, on_bad_document="error").open()


def test_what_python_writes_beyond_json_is_read(tmp_path):
    """NaN and infinities, as json.dumps has them; and two of ours may be one field of the file."""
    path = tmp_path / "documents.jsonl"
    path.write_text('{"title": "t", "text": "x", "metadata": {"score": NaN, "most": Infinity}}\n')
    passage = Corpus(path, fields={"id": "title", "heading": "title"}).passage(0)
    assert (passage["document"], passage["heading"]) == ("t", "t")
    assert passage["metadata"]["score"] != passage["metadata"]["score"]


def test_a_file_that_is_no_utf8_is_named(tmp_path):
    """With the byte and the line."""
    (tmp_path / "latin.txt").write_bytes(b"one\ncaf\xe9")
    with pytest.raises(ConfigError, match=r"latin\.txt: byte 7 \(line 2\) is no UTF-8"):
        Corpus(tmp_path).open()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere file names are Unicode")
def test_a_file_whose_name_is_no_utf8_is_named(tmp_path):
    """Its name is its id, which could not be written down."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("one")
    with pytest.raises(ConfigError, match=r"the name 'caf.udce9\.txt' is no UTF-8"):
        Corpus(tmp_path).open()


@pytest.mark.parametrize("with_index", [False, True])
def test_an_empty_corpus_is_an_error(tmp_path, with_index):
    """No document, or none with text: never an index of nothing."""
    index = tmp_path / "index" if with_index else None
    folder = tmp_path / "docs"
    folder.mkdir()
    with pytest.raises(ConfigError, match="no document is here"):
        Corpus(folder, index=index).open()
    (folder / "white.txt").write_text(" \n")
    with pytest.raises(ConfigError, match="there is no text in it"):
        Corpus(folder, index=index).open()
    with pytest.raises(ConfigError, match="no such file"):
        Corpus(tmp_path / "nowhere", index=index).open()
    (tmp_path / "x.doc").write_text("x")
    with pytest.raises(ConfigError, match="this kind of file is not read"):
        Corpus(tmp_path / "x.doc", index=index).open()


def test_fields_that_are_none_are_refused(tmp_path):
    """Of a directory, and names that nothing asks for."""
    with pytest.raises(ConfigError, match="titel"):
        corpus_of(tmp_path, fields={"titel": "x"}).open()
    with pytest.raises(ConfigError, match="jsonl"):
        Corpus(tmp_path, fields={"text": "x"}).open()


def test_megabytes_in_one_document(tmp_path):
    """They are split in seconds, each passage says what stands at its place, and none is too long to read."""
    text = "A sentence with some words in it. " * 100_000
    (tmp_path / "long.txt").write_text(text)
    start = perf_counter()
    corpus = Corpus(tmp_path / "long.txt", split="window", overlap=20)
    found = passages(corpus)
    assert perf_counter() - start < 60
    assert len(found) > 7_000
    last = found[-1]
    assert text[last["start"] : last["end"]] == last["text"]
    assert max(len(each["text"]) for each in found) < 1000


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    """Its passages would be filed under the digest of other words."""
    folder = write_files(tmp_path / "docs", {"a": "One.", "b": "Two."})
    inner = kept_documents._split

    def slow(document, how):
        (folder / "b.txt").write_text("Other.")
        return inner(document, how)

    monkeypatch.setattr(kept_documents, "_split", slow)
    with pytest.raises(ConfigError, match=r"b\.txt.*written to while"):
        Corpus(folder, index=tmp_path / "index").open()


def test_the_last_to_close_lets_the_passages_go(tmp_path):
    """Parts share a corpus: one that closes it leaves it to the others; rows hold until the last one closes."""
    corpus = corpus_of(tmp_path)
    corpus.open()
    corpus.open()
    corpus.close()
    write_lines(tmp_path / "documents.jsonl", {"new": "Only this."})
    assert len(corpus) == len(ANIMALS)
    corpus.close()
    corpus.close()
    assert len(corpus) == 1


def test_without_a_terminal_work_is_a_line_in_the_log(tmp_path, capfd, caplog):
    """And nothing is printed."""
    with caplog.at_level(logging.INFO, logger="draftverify.retrieval"):
        corpus_of(tmp_path, index=tmp_path / "index").open()
    said = [record.getMessage() for record in caplog.records]
    assert any("splitting documents of documents.jsonl: 5 in" in each for each in said)
    assert any("5 documents added, 0 changed, 0 removed, 0 as they were" in each for each in said)
    assert capfd.readouterr() == ("", "")


def test_two_processes_make_one_index(tmp_path):
    """Each waits for the other; both see the same passages, and the directory is whole."""
    write_lines(tmp_path / "documents.jsonl", {str(i): f"Document {i}." for i in range(300)})
    code = (
        "import sys; from pathlib import Path; from draftverify_retrieval import Corpus; folder = Path(sys.argv[1]); "
        "corpus = Corpus(folder / 'documents.jsonl', index=folder / 'index'); "
        "print([corpus.passage(row)['id'] for row in range(len(corpus))])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=environment)
        for _ in range(2)
    ]
    first, second = (each.communicate(timeout=120)[0] for each in running)
    assert first == second
    assert first.count(b"#") == 300
    Corpus(tmp_path / "documents.jsonl", index=tmp_path / "index").open()


@pytest.mark.parametrize("how", ["truncated", "emptied", "flipped", "deleted"])
@pytest.mark.parametrize("file", ["passages", "manifest"])
def test_a_damaged_index_is_found_when_it_is_opened(tmp_path, how, file):
    """Never a silently wrong one: the file is named, and what to do."""
    corpus_of(tmp_path, index=tmp_path / "index").open()
    (path,) = (tmp_path / "index").glob(f"{file}.*")
    content = path.read_bytes()
    if how == "deleted":
        path.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        path.write_bytes({"truncated": content[:-3], "emptied": b"", "flipped": flipped}[how])
    again = corpus_of(tmp_path, index=tmp_path / "index")
    if (how, file) == ("deleted", "manifest"):  # as after a crash before the first manifest: it is made anew
        assert passages(again) == passages(corpus_of(tmp_path))
        return
    with pytest.raises(DamagedIndexError, match=rf"{path.name}.*Delete the directory"):
        again.open()


def test_an_index_of_another_format_is_refused(tmp_path):
    """A later version's, say."""
    corpus_of(tmp_path, index=tmp_path / "index").open()
    manifest: Path = tmp_path / "index/manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(ConfigError, match="format 99"):
        corpus_of(tmp_path, index=tmp_path / "index").open()
