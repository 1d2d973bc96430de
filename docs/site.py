"""Hooks of the site's build (mkdocs.yml): pages link to files of the repository as they do when read in it.

The README is the site's first page. A link that leaves docs/ (an example, a JSON of a benchmark) leads to a copy of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(\]\(|src=\"|srcset=\")([^)\s\"#:]+)(?=[)\s\"#])")
OUTSIDE = {
    "index.md": "README.md",
    "sql.md": "examples/plugin/README.md",
    "distilled.md": "examples/distilled/README.md",
    "physics.md": "examples/physics/README.md",
    "proofs.md": "examples/proofs/README.md",
    "history.md": "benchmarks/README.md",
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}
"""Pages that stand outside docs/."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside docs/, and every file there that a page links to."""
    for page, source in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for file in list(files.documentation_pages()):
        for _, link in LINK.findall(file.content_string):
            copied = _target(file, link)
            if copied.startswith("files/") and files.get_file_from_path(copied) is None:
                source = str(ROOT / copied.removeprefix("files/"))
                files.append(File.generated(config, copied, abs_src_path=source))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to files of the repository into links to what stands on the site."""
    here = posixpath.dirname(page.file.src_uri) or "."
    return LINK.sub(lambda link: link[1] + posixpath.relpath(_target(page.file, link[2]), here), markdown)


def _target(file: File, link: str) -> str:
    """What a page's link leads to on the site; what is not in the repository is left to the build, which tells."""
    page = OUTSIDE.get(file.src_uri, f"docs/{file.src_uri}")
    named = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if named in OUTSIDE.values():
        return next(page for page, source in OUTSIDE.items() if source == named)
    if named.startswith("docs/"):
        return named.removeprefix("docs/")
    return (
        f"files/{named}"
        if (ROOT / named).is_file()
        else posixpath.join(posixpath.dirname(file.src_uri), link)
    )
