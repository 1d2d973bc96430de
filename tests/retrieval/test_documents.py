"""Documents of many kinds, and bad ones among them: real files, each reported and none fatal."""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from draftverify import ConfigError
from draftverify_retrieval import Corpus

from .corpora import passages

WORD = """<?xml version="1.0" encoding="UTF-8"?>
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>
<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Ovens</w:t></w:r></w:p>
<w:p><w:r><w:t>The oven is lit at four.</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Rye</w:t></w:r></w:p></w:tc>
<w:tc><w:p><w:r><w:t>750 g</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
</w:body></w:document>"""
HTML = b"""<!DOCTYPE html><html><head><meta charset="iso-8859-1"><style>p {color: red}</style><script>steal()</script>
</head><body><h1>Ovens</h1><p>The oven is <b>lit</b> at <a href="x">four</a>, in caf\xe9s.</p>
<h2>Rye</h2><ul><li>750 grams</li><li>dark_flour</li></ul></body></html>"""
RST = """Ovens
=====

The oven is *lit* at four.

.. include:: secret.txt

.. toctree::
   other

Rye
---

Loaves weigh 750 grams::

    weigh(loaf)
"""


def write_pdf(path: Path, *pages: str, password: str = "") -> None:
    """A PDF of a text a page; a page without text is one as a scanner makes it."""
    writer = PdfWriter()
    for words in pages:
        page = writer.add_blank_page(200, 200)
        font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        named = DictionaryObject({NameObject(key): NameObject(value) for key, value in font.items()})
        fonts = DictionaryObject({NameObject("/F1"): named})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({words}) Tj ET".encode() if words else b"")
        page[NameObject("/Contents")] = stream
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(path)


def write_word(path: Path) -> None:
    """The least that a .docx file needs."""
    kinds = "http://schemas.openxmlformats.org/package/2006/content-types"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    relations = "http://schemas.openxmlformats.org/package/2006/relationships"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{kinds}"><Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        )
        file.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{relations}"><Relationship Id="a" Type="{office}" Target="word/document.xml"/>'
            "</Relationships>",
        )
        file.writestr("word/document.xml", WORD)


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder with one good text and five bad documents."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "good.txt").write_text("The oven is lit at four.")
    (folder / "latin.txt").write_bytes(b"one\ncaf\xe9")
    (folder / "damaged.pdf").write_bytes(b"%PDF-1.7\nnothing of the kind")
    write_pdf(folder / "locked.pdf", "secret", password="open sesame")
    write_pdf(folder / "scanned.pdf", "")
    (folder / "damaged.docx").write_bytes(b"PK no archive")
    return folder


PROBLEMS = {
    "damaged.docx": "cannot be read as DOCX",
    "damaged.pdf": "cannot be read as PDF",
    "latin.txt": "byte 7 (line 2) is no UTF-8",
    "locked.pdf": "not been decrypted",
    "scanned.pdf": "there is no text in it",
}


def test_bad_documents_are_listed_and_the_others_are_found(mixed: Path, caplog: Any) -> None:
    """Each with its reason: in `changes`, the log, and the index; an index that opens again lists them again."""
    index = mixed.parent / "index"
    for _ in range(2):
        caplog.clear()
        corpus = Corpus(mixed, index=index)
        assert [passage["text"] for passage in passages(corpus)] == ["The oven is lit at four."]
        bad = corpus.changes.bad
        assert bad.keys() == PROBLEMS.keys()
        assert all(PROBLEMS[name] in bad[name] for name in bad)
        ours = [record for record in caplog.records if record.name == "draftverify.retrieval"]
        (warning,) = [record.getMessage() for record in ours if record.levelno == logging.WARNING]
        assert "5 of 6 documents cannot be used" in warning
        assert all(name in warning for name in PROBLEMS)
    manifest = json.loads((index / "manifest.json").read_text())
    assert manifest["parts"]["passages"]["about"]["bad documents"] == dict(bad)
    (mixed / "latin.txt").write_text("now it is UTF-8")
    mended = Corpus(mixed, index=index)
    mended.open()
    assert mended.changes.changed == ("latin.txt",)
    assert "latin.txt" not in mended.changes.bad


def test_bad_documents_may_be_an_error(mixed: Path) -> None:
    """All are named at once, and what was read is kept for the next time."""
    index = mixed.parent / "index"
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"5 of 6 documents") as caught:
            Corpus(mixed, index=index, on_bad_document="error").open()
        assert all(name in str(caught.value) for name in PROBLEMS)
    corpus = Corpus(mixed, index=index)
    corpus.open()
    assert corpus.changes.unchanged == 6


def test_a_bad_line_leaves_the_others(tmp_path: Path) -> None:
    """A null text, a cut line: named by their places."""
    path = tmp_path / "pages.jsonl"
    path.write_text(
        '{"id": "a", "text": "fine"}\n{"id": "b", "text": null}\n{"id": "c"\n{"id": "d", "text": "too"}\n'
    )
    corpus = Corpus(path, split="document")
    assert [passage["id"] for passage in passages(corpus)] == ["a", "d"]
    assert list(corpus.changes.bad) == ["pages.jsonl:2", "pages.jsonl:3"]


def test_html_word_and_rst_are_read_below_their_headings(tmp_path: Path) -> None:
    """Scripts, markup and other files are left out; the page's own encoding holds."""
    (tmp_path / "page.html").write_bytes(HTML)
    (tmp_path / "page.rst").write_text(RST)
    (tmp_path / "secret.txt").write_text(" ")
    write_word(tmp_path / "page.docx")
    corpus = Corpus(tmp_path)
    found = [(each["document"], each.get("heading"), each["text"]) for each in passages(corpus)]
    (table,) = [text for _, _, text in found if "Rye |" in text]
    assert "| Rye | 750 g |" in table
    assert [each for each in found if each[2] != table] == [
        ("page.docx", "Ovens", "The oven is lit at four."),
        ("page.html", "Ovens", "The oven is lit at four, in cafés."),
        ("page.html", "Ovens › Rye", "* 750 grams\n* dark_flour"),
        ("page.rst", "Ovens", "The oven is lit at four."),
        ("page.rst", "Ovens › Rye", "Loaves weigh 750 grams:"),
        ("page.rst", "Ovens › Rye", "```\nweigh(loaf)\n```"),
    ]


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    """By pypdf; a page is a passage."""
    write_pdf(tmp_path / "two.pdf", "Hello page one", "And page two")
    assert [each["text"] for each in passages(Corpus(tmp_path))] == ["Hello page one", "And page two"]


def test_metadata_of_a_line_come_with_its_passages(tmp_path: Path) -> None:
    """Under whatever name; a change of them alone is a change of the document."""
    path = tmp_path / "pages.jsonl"

    def write(year: int) -> None:
        path.write_text(json.dumps({"id": "a", "text": "One. Two.", "about": {"year": year}}) + "\n")

    def opened() -> Corpus:
        return Corpus(path, split="sentence", fields={"metadata": "about"}, index=tmp_path / "index")

    write(2020)
    assert [each["metadata"] for each in passages(opened())] == [{"year": 2020}] * 2
    write(2021)
    corpus = opened()
    assert [each["metadata"] for each in passages(corpus)] == [{"year": 2021}] * 2
    assert corpus.changes.changed == ("a",)
    path.write_text(json.dumps({"id": "a", "text": "x", "about": "2020"}))
    with pytest.raises(ConfigError, match=r"Expected `object \| null`, got `str` - at `\$.metadata`"):
        opened().open()
