"""A task's files, and what each candidate makes of them: a program in one of them, several files, or a patch.

What a candidate may not change (tests, the configuration of tests and of CI) stays as it was, as in SWE-bench's own
harness: whoever only edits tests has changed nothing.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace as replaced
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from draftverify import Check, Context, ContractError, Proposal, Task, Verification
from draftverify_code.patches.container import Container
from draftverify_code.patches.files import BASE, BLOCK, Change, GitFile, PackedFiles, files_in, pack, shelf
from draftverify_code.patches.repository import WRITTEN, Repository, Unapplied, commit_at
from draftverify_code.program import program_of, texts_of
from draftverify_code.sandbox import Sandbox, SandboxCommand, default_sandbox
from draftverify_code.stages.running import SHARED, capped, imported, script, verified

PROTECTED = (
    "test_*.py", "tests.py", "*_test.*", "*.test.*", "*.spec.*", "conftest.py", "tests/", "__tests__/", "test/*",
    "__pycache__/",
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py",
    "*.egg-info/*", "*.dist-info/*",
    ".github/", ".gitlab/", ".gitlab-ci.yml", ".circleci/", ".travis.yml", "azure-pipelines.yml", "Jenkinsfile",
)  # fmt: skip
"""What candidates may not change. A pattern that ends in a slash is a directory anywhere, one with a slash inside a
path, any other a file's name."""
PATCH = 10 << 20  # characters of a patch
FILES = 2000  # that a candidate changes
LONGEST = 255  # bytes of a file's name
CHANGE = ".draftverify-change"
"""The name of a candidate's archive in the scratch directory."""
NOT_STARTED = f"draftverify {secrets.token_hex(16)}: "
"""What is written before the reason why a command could not be started: a program that runs has never seen it."""
_GITS_OWN = re.compile(r"(\.\W*g\W*i\W*t|git~1)\W*$", re.IGNORECASE)
"""What Windows and macOS take for `.git`."""
REGULAR, EXECUTABLE, SYMBOLIC = 0o100644, 0o100755, 0o120000


class JudgedChange(msgspec.Struct, frozen=True):
    """A candidate as it is judged.

    Args:
        change: of the task's files.
        protected: paths that it changes as well, and that stay as they were.
        judged: the candidate without these.
    """

    change: Change
    protected: tuple[str, ...] = ()
    judged: Any = UNSET


class Workspace:
    """The files of one task.

    A task has `files` (path: text), or a `repository`: a directory, of which `base_commit` may name a revision; else
    its files count as they lie there. It may have `target`, the file to which programs are written; `test_patch`, a
    patch of the tests; `FAIL_TO_PASS` and `PASS_TO_PASS`, the tests that count; and `image`, a container image whose
    working directory holds the same files.

    Args:
        task: with these.
        protected: patterns of what candidates may not change.

    Attributes:
        holding: files in which a run has found tests, and which they may not change either.

    Raises:
        ContractError: what the task has of it is not as it must be.
    """

    def __init__(self, task: Task, protected: Sequence[str]) -> None:
        self.fields = fields = task.input
        self.name = f"task {task.id}"
        self.protected = protected
        self.holding: frozenset[str] = frozenset()
        self.image = str(fields.get("image") or "")
        target = fields.get("target")
        self.target = posixpath.normpath(target) if isinstance(target, str) and target else ""
        lists = (fields.get(name) or () for name in ("FAIL_TO_PASS", "PASS_TO_PASS"))
        self.must_turn, self.must_stay = (texts_of(ids, f"the listed tests of {self.name}") for ids in lists)
        self.listed = frozenset((*self.must_turn, *self.must_stay))
        self._listed_files = {id.partition("::")[0] for id in self.listed}
        self.named = bool(self.target or fields.get("repository"))
        directory, commit = fields.get("repository"), fields.get("base_commit")
        if directory is None:
            files = _files(fields.get("files", {}), f"the `files` of {self.name}")
            if outside := [path for path in files if not _is_inside(path)]:
                raise ContractError(
                    f"the `files` of {self.name} hold {outside[0]!r}, which leads out of them"
                )
            self.packed = PackedFiles(files.items())
        elif commit:
            self._repository, self.packed = commit_at(str(directory), str(commit))
        elif Path(str(directory)).is_dir():
            self.packed = PackedFiles(files_in(Path(str(directory))))
        else:
            raise ContractError(f"there is no directory {directory}, the `repository` of {self.name}")
        self.tests: Change = {}
        if test_patch := fields.get("test_patch"):
            try:
                self.tests = self._repository.apply(_terminated(str(test_patch))).change
            except Unapplied as error:
                raise ContractError(f"the test_patch of {self.name} does not apply: {error}") from None

    @cached_property
    def _repository(self) -> Repository:
        return Repository.of(self.packed.files())

    @property
    def is_begun(self) -> bool:
        """Whether there is something to judge before any candidate: a repository, or a program to mend."""
        return not self.target or self.target in self.paths

    @cached_property
    def paths(self) -> list[str]:
        """The files before any candidate, with the tests' patch."""
        paths = dict.fromkeys((*self.packed.modes, *self.tests))
        return [path for path in paths if self.tests.get(path, True) is not None]

    def box(self, sandbox: Sandbox | None, framework: Sequence[str] = ()) -> Sandbox | Container:
        """Where candidates run: the task's image, the sandbox, or one that shows what the Python files import."""
        if self.image:
            return Container(self.image)
        shelves = () if isinstance(self.packed.archive, bytes) else (shelf(),)
        if sandbox is None:
            imports = "\n".join(f"import {name}" for name in self.packed.imports)
            return default_sandbox((*framework, *imported([imports], self.paths)), shelves)
        if not shelves:
            return sandbox
        return _showing(sandbox, shelves)

    def verified(
        self,
        context: Context,
        proposal: Proposal,
        box: Sandbox | Container,
        stage: str,
        judge: Callable[[Change], Check],
    ) -> Verification:
        """Check a block; candidates that make the same of the files are judged once.

        Args:
            context: of the call.
            proposal: programs for the target, patches, or mappings of paths to texts.
            box: where candidates run.
            stage: the name that the checks carry.
            judge: gives the check of a change; several at once.
        """
        names = [_name(item) for item in proposal.items]
        if not self.target and any(map(_is_text, proposal.items)):
            _ = self._repository  # made here, once, and not by the threads
        judged_texts = (program_of(name, self.fields) for name in names)
        items = dict(zip(judged_texts, proposal.items, strict=True))
        lock, judged = Lock(), dict[Any, Future[Check]]()

        def check_one(name: str) -> Check:
            draft = self._draft(name, items[name])
            if isinstance(draft, Check):
                return draft
            key = frozenset(draft.change.items())
            with lock:
                first = key not in judged
                future = judged.setdefault(key, Future())
            if first:
                try:
                    future.set_result(judge(draft.change))
                except BaseException as error:
                    future.set_exception(error)
            return _marked(draft, future.result())

        def check(wanted: Sequence[str]) -> list[Check]:
            # One is applied while others run.
            with ThreadPoolExecutor(box.at_once) as pool:
                return list(pool.map(check_one, wanted))

        named = replace(proposal, items=tuple(names))
        return verified(context, named, cast(Sandbox, box), stage, SHARED, check)

    def laid_out(self, command: SandboxCommand, change: Change, *, inside: bool = False) -> SandboxCommand:
        """A command in a directory with the files as a candidate has them.

        Args:
            command: what is to run.
            change: what the candidate changes.
            inside: whether the command is this Python with a program's text as its last argument, in front of which
                the files are laid out; else it is started once they are there.
        """
        final = pack({**change, **self.tests})
        files, names, limits = {CHANGE: final}, [CHANGE], command.limits
        if not self.image:
            archive = self.packed.archive
            names.insert(0, BASE if isinstance(archive, bytes) else str(archive))
            if isinstance(archive, bytes):
                files[BASE] = archive
            limits = replace(
                limits,
                disk=limits.disk + self.packed.size + len(final) + BLOCK * len(change),
                files=limits.files + self.packed.entries + 2 * len(change),
            )
        unpack = script("patches/unpack.py")
        argv = (
            (*command.argv[:-1], unpack + command.argv[-1], *names, "--")
            if inside
            else (sys.executable, "-I", "-S", "-c", unpack, *names, "--", NOT_STARTED, *command.argv)
        )
        return replace(command, argv=argv, files=files, limits=limits)

    def _draft(self, name: str, item: Any) -> JudgedChange | Check:
        """What a candidate makes of the files, or why it is refused."""
        try:
            name.encode()
            if not _is_text(item):
                files = _files(item, "a candidate's files")
                if len(files) < len(item):
                    raise Unapplied("it has a file twice")
                return self._settled(self._written(files), dict(item))
            text = program_of(item, self.fields)
            if self.target:
                change = self._written({self.target: GitFile(REGULAR, text.encode(errors="replace"))})
                self._admit(change)
                return JudgedChange(change)
            if len(text) > PATCH:
                raise Unapplied(f"the patch has more than {PATCH >> 20} MiB")
            patch = _terminated(text)
            return self._settled(self._repository.apply(patch).change, patch)
        except (Unapplied, UnicodeEncodeError) as error:
            return Check("reject", 0.0, "patch", capped(_plain(str(error))))

    def _written(self, files: Mapping[str, GitFile]) -> Change:
        """Files as a candidate writes them, whose modes stay as they are."""
        modes = self.packed.modes
        if links := [path for path in files if modes.get(path) == SYMBOLIC]:
            raise Unapplied(f"{links[0]} is a symbolic link")
        return {path: GitFile(modes.get(path, REGULAR), file.content) for path, file in files.items()}

    def _settled(self, change: Change, item: bytes | dict[str, Any]) -> JudgedChange:
        """A change without what is protected."""
        protected = tuple(path for path in change if self.protects(path))
        kept = {path: file for path, file in change.items() if path not in protected}
        if protected and not kept:
            raise Unapplied(f"it changes nothing but what is protected: {_listed(protected)}")
        self._admit(kept)
        if not protected:
            return JudgedChange(kept)
        if isinstance(item, bytes):
            return JudgedChange(kept, protected, self._repository.apply(item, protected).text)
        judged = {path: text for path, text in item.items() if posixpath.normpath(path) in kept}
        return JudgedChange(kept, protected, judged)

    def protects(self, path: str) -> bool:
        """Whether candidates may not change a path."""
        *folders, name = path.split("/")
        if path in self.tests or path in self._listed_files or path in self.holding:
            return True
        return any(
            pattern[:-1] in folders
            if pattern.endswith("/")
            else fnmatchcase(path if "/" in pattern else name, pattern)
            for pattern in self.protected
        )

    @cached_property
    def watched(self) -> list[str]:
        """The files whose functions are to stay the same while tests run: tests, and beside a target all others."""
        if self.target:
            return [path for path in self.paths if path != self.target]
        python = (path for path in self.paths if path.endswith(".py"))
        return [path for path in python if path.endswith("__init__.py") or self.protects(path)]

    def _admit(self, change: Change) -> None:
        """Refuse what leads out of the files, is no file, or is too much."""
        written = {path: file for path, file in change.items() if file is not None}
        if len(change) > FILES or sum(len(file.content) for file in written.values()) > WRITTEN:
            raise Unapplied(f"it changes more than {FILES} files, or writes more than {WRITTEN >> 20} MiB")
        there: set[str] = set()
        if not written.keys() <= self.packed.modes.keys():
            there = {*self.packed.modes, *self.tests} - change.keys() | written.keys()
        for path, file in written.items():
            if not _is_inside(path):
                raise Unapplied(f"{path!r} is no path of a file in the repository")
            if path not in self.packed.modes:
                parts = path.split("/")
                if any("/".join(parts[:length]) in there for length in range(1, len(parts))):
                    raise Unapplied(f"{path} lies below a file")
                if any(other.startswith(path + "/") for other in there):
                    raise Unapplied(f"{path} is a directory")
            if file.mode == SYMBOLIC:
                end = file.content.decode(errors="replace")
                # Behind another link `..` is not what it looks like: `link/../x` may lead anywhere.
                inside = _is_inside(posixpath.join(posixpath.dirname(path), end))
                if end.startswith("/") or end != posixpath.normpath(end) or not inside:
                    raise Unapplied(f"{path} is a symbolic link out of the repository")
            elif file.mode not in (REGULAR, EXECUTABLE):
                raise Unapplied(f"{path} is a repository of its own")


def workspace_of(context: Context, protected: Sequence[str]) -> Workspace:
    """The files of the context's task, read once."""
    key = (__name__, texts_of(protected, "`protected`"))
    if key not in context.scratch:
        context.scratch[key] = Workspace(context.task, protected)
    workspace: Workspace = context.scratch[key]
    return workspace


@lru_cache(maxsize=8)
def _showing(sandbox: Sandbox, paths: tuple[Path, ...]) -> Sandbox:
    """Another sandbox of the same kind, which shows more."""
    return replaced(sandbox, readable=(*sandbox.readable, *paths))


def _is_text(item: Any) -> bool:
    return not isinstance(item, Mapping) or isinstance(item.get("text"), str)


def _name(item: Any) -> str:
    """An item as a text, the same for equal ones."""
    if _is_text(item):
        return program_of(item)
    _files(item, "a candidate's files")
    return json.dumps(dict(item), sort_keys=True, ensure_ascii=False)


def _files(files: Any, label: str) -> dict[str, GitFile]:
    """A mapping of paths to texts, as files.

    Raises:
        ContractError: it is none.
    """
    is_mapping = isinstance(files, Mapping)
    if not is_mapping or not all(isinstance(text, str) for pair in files.items() for text in pair):
        raise ContractError(f"{label} must be a mapping of relative paths to texts")
    return {
        posixpath.normpath(path): GitFile(REGULAR, text.encode(errors="replace"))
        for path, text in files.items()
    }


def _is_inside(path: str) -> bool:
    """Whether a path leads to a file below that any system can write, and not to git's own on any of them."""
    parts = posixpath.normpath(path).split("/")
    return (
        bool(path)
        and not {"\0", "\\"} & {*path}
        and not {"", ".", ".."} & {*parts}
        and not any(_GITS_OWN.match(part) or len(os.fsencode(part)) > LONGEST for part in parts)
    )


def _terminated(patch: str) -> bytes:
    """A patch as git reads it: models leave out the end of the last line."""
    return (patch if patch.endswith("\n") else patch + "\n").encode(errors="replace")


def _marked(draft: JudgedChange, check: Check) -> Check:
    """A check with what was left out of the candidate: what was judged in its place, or words for whoever mends it."""
    if not draft.protected:
        return check
    words = _plain(f"left as they were, since they are protected: {_listed(draft.protected)}")
    correction = draft.judged if check.verdict == "pass" else UNSET
    feedback = "\n".join(filter(None, (check.feedback, words)))
    return replace(check, feedback=feedback, correction=correction)


def _plain(words: str) -> str:
    """Words that can be recorded, though a path in them is no text."""
    return words.encode(errors="backslashreplace").decode()


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
