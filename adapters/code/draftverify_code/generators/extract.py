"""From a text model's answer to a program: what is fenced, what is prose, what continues the prompt, what is missing.

Everything here reads text and its syntax tree; nothing is run. An answer that holds no program that parses comes
back as the best guess at one, so that the syntax stage can say what is wrong with it.
"""

from __future__ import annotations

import ast
import re
import textwrap
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from draftverify_code.generators.examples import before_examples
from draftverify_code.names import BUILTINS, FUNCTIONS, binds, bound, free, is_definition
from draftverify_code.program import language_of

LONGEST = 100_000  # characters; a longer text is not parsed
TRIES = 24  # how often a run of lines is cut and parsed again, and how many runs are looked for in one text
LABOUR = 12  # times its own length that of a text is parsed while such runs are looked for, beyond
SLACK = 20_000  # characters
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S)
_QUOTED = re.compile(r"[ \t]*>(?!>) ?")
_FENCE = re.compile(
    r"^(?P<before>[^`~]*)(?P<fence>`{3,}|~{3,}(?!~))(?=[^`]*$)[ \t]*(?P<tag>[^\s`]*)(?P<more>[^`]*)$"
)
_ONE_LINE = re.compile(r"```(?:(?:python3?|py)[ \t])?(?P<code>[^`\n]+)```")
_CODE = re.compile(
    r"^(?:from\s+\.*\w|import\s+\w|(?:async\s+)?def\s|class\s|@\w|if\s+__name__|[A-Za-z_]\w*\s*(?::[^=]+)?=)"
)
_CLAUSE = re.compile(r"^(?:else|elif|except|finally)\b|^[)\]}]")  # goes on with the statement above
_DECLARING = "fn|func|function|fun|def|sub|proc|let|const|var|class|struct"
_NO_DECLARATION = re.compile(
    r"\b(?:if|else|elif|for|while|until|unless|switch|match|case|when|in|return|await|new|throw|yield)\b"
)
_PARENTHESES = r"\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)"


def truncate(text: str, stop: Sequence[str]) -> str:
    """The text up to the first of the stop strings.

    Examples:
        >>> truncate("    return 1\\n\\nprint(f())", ["\\nclass ", "\\nprint"])
        '    return 1\\n'
    """
    ends = [place for mark in stop if mark and (place := text.find(mark)) >= 0]
    return text[: min(ends)] if ends else text


def extract(
    answer: str,
    *,
    prompt: str = "",
    entry_point: str = "",
    continues: bool = False,
    language: str = "python",
    stop: Sequence[str] = (),
) -> str:
    """The program in an answer.

    Of several fenced blocks the last one that defines the entry point (with more than a docstring) is taken; without
    an entry point the last program that parses and is no snippet beside the longest. Without a usable block the
    lines of the text that are Python statements are put together. A function's body alone is joined to the prompt,
    given back its indentation where the model lost it. What the program uses and does not define is taken from the
    answer's other blocks and from what stands in the prompt above the entry point (imports, helpers). With an
    entry point, the examples that end the program (prints, asserts, a main guard, calls of the entry point) are left
    out; a call there that fills what the functions read stays.

    Args:
        answer: the model's text; `<think>` sections are not read.
        prompt: the text that was to be continued.
        entry_point: the name that the program must define; "" when it has none.
        continues: whether the prompt is code that the answer may continue.
        language: of the program. Only Python is parsed; for others the fenced block is all that is looked for.
        stop: where a completion would end. Where that is a closing brace, the task's tests bring it: of a program in
            another language all from the last one on is left out.

    Returns:
        A program; where nothing parses the most likely text; "" for an answer of white space.
    """
    text = _spoken(answer)
    blocks = list(fenced(text))
    if language_of(language) != "python":
        program = _by_tag(text, blocks, prompt if continues else "", entry_point, language)
        ends = [program.rfind(mark) for mark in stop if mark.strip() == "}" and mark in program]
        return program[: max(ends)] if ends else program
    if len(text) > LONGEST:
        return max((block for _, block in blocks), key=len, default=text)
    reader = _AnswerReader(
        prompt if continues else "", entry_point, LABOUR * (len(text) + len(prompt)) + SLACK
    )
    regions = [block for tag, block in blocks if not tag or _is_python(tag)]
    regions = regions or [block for _, block in blocks]
    programs = [program for region in regions for program in reader.read(region)]
    if not any(program.defines_it for program in programs):
        # No block has it: perhaps there is none, perhaps the fences stand in wrong places.
        programs += reader.read("\n".join(line for line in text.split("\n") if not _FENCE.match(line)))
    chosen = reader.choose(programs, text)
    if chosen is None:
        return _guess(text, regions, prompt if continues else "", entry_point)
    snippets = [snippet for region in regions if (snippet := _ParsedProgram.of(region)) is not None]
    return reader.completed(reader.without_examples(chosen), snippets).text


def program_in(answer: str, fields: Mapping[str, Any], prompt: str | None = None) -> str:
    """The program in an answer to a task.

    Args:
        answer: the model's text.
        fields: the task's input.
        prompt: what was asked, where it is not the input's.
    """
    return extract(
        answer,
        prompt=fields.get("prompt", "") if prompt is None else prompt,
        entry_point=fields.get("entry_point", ""),
        continues=fields.get("form") == "completion",
        language=fields.get("language") or "python",
        stop=fields.get("stop_tokens", ()),
    )


def fenced(text: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a text in order: (tag, content). One that is never closed reaches to the end.

    A block's lines lose the indentation of its opening fence, and the marks of a quotation (`> `) where all have
    them. A fence may open behind prose on the same line, and close behind code.
    """
    for tag, content in _blocks(text):
        lines = content.split("\n")
        quoted = content.strip() and all(_QUOTED.match(line) or not line.strip() for line in lines)
        yield tag, "\n".join(_QUOTED.sub("", line, count=1) for line in lines) if quoted else content


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    opened: tuple[str, str, int] | None = None  # the fence, its tag, its indentation
    content: list[str] = []
    for line in lines:
        mark = _FENCE.match(line)
        if opened is None:
            if mark is None:
                for match in _ONE_LINE.finditer(line):
                    yield "", match["code"].strip(" \t")
                continue
            begins = mark["tag"] + mark["more"]
            code = bool(_CODE.match(begins)) and not _is_python(begins.split()[0])
            if mark["before"].strip() and mark["more"].strip() and not code:
                continue  # three backticks in the middle of prose
            indentation = len(mark["before"]) if not mark["before"].strip() else 0
            opened, content = (mark["fence"], "" if code else mark["tag"], indentation), []
            if code:
                content.append(begins)
            continue
        fence, tag, indentation = opened
        bare = line.strip().lstrip("> ")  # it may stand in a quotation
        if bare and set(bare) == {fence[0]} and len(bare) >= len(fence):
            yield tag, "\n".join(content)
            opened = None
        elif mark is not None and mark["fence"][0] == fence[0] and _is_python(mark["tag"]):
            yield tag, "\n".join(content)  # the last block was never closed
            opened, content = (mark["fence"], mark["tag"], 0), []
        elif bare.endswith(fence) and fence[0] == "`":
            content.append(_less(line.rstrip().rstrip("`"), indentation))
            yield tag, "\n".join(content)
            opened = None
        else:
            content.append(_less(line, indentation))
    if opened is not None:
        yield opened[1], "\n".join(content)


def _is_python(tag: str) -> bool:
    return language_of(tag) == "python"


def preamble(prompt: str, entry_point: str) -> str:
    """What stands in a prompt above the entry point: imports and helpers; "" when it does not define it."""
    head = re.search(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", prompt, re.M)
    lines = prompt[: head.start()].splitlines(keepends=True) if entry_point and head else []
    while lines and lines[-1].startswith("@"):
        lines.pop()
    return "".join(lines)


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of Python text; None when it does not parse."""
    tree = _parse(text)
    return None if isinstance(tree, int) else tree


@dataclass(frozen=True)
class _ParsedProgram:
    """A text that parses, with its tree."""

    text: str
    tree: ast.Module
    defines_it: bool = False  # it defines the entry point, with more than a docstring
    complete: bool = True  # no line of the region was left out

    @staticmethod
    def of(text: str) -> _ParsedProgram | None:
        tree = parsed(text)
        return None if tree is None else _ParsedProgram(text, tree)

    def defines(self) -> set[str]:
        """The names that its top level binds."""
        return {name for statement in self.tree.body for name in bound(statement)}

    def prosaic(self) -> bool:
        """Whether a statement of its top level does nothing but look like one: `Sure`, or `Time: O(n)`."""
        return any(
            (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Name))
            or (isinstance(statement, ast.AnnAssign) and statement.value is None)
            for statement in self.tree.body
        )

    def has_function(self) -> bool:
        """Whether its top level defines a function or a class."""
        return any(isinstance(statement, FUNCTIONS) for statement in self.tree.body)

    def lacks(self) -> set[str]:
        """The names that it reads and binds nowhere."""
        return free(self.tree) - BUILTINS


class _AnswerReader:
    """What one task makes of texts.

    Args:
        prompt: code that a text may continue; "" when it may not.
        entry_point: the wanted name, or "".
        labour: characters that may be parsed in search of whole statements, over all texts together.
    """

    def __init__(self, prompt: str, entry_point: str, labour: int) -> None:
        self.prompt = prompt
        self.entry_point = entry_point
        self.labour = labour

    def read(self, region: str) -> list[_ParsedProgram]:
        """The programs that a region may stand for, best reading last; none when nothing of it parses."""
        region = region.strip("\n").rstrip()
        if not region.strip():
            return []
        texts = [region, textwrap.dedent(region)] if region[:1].isspace() else [region]
        complete = [
            program for text in texts if (program := _ParsedProgram.of(text)) and not program.prosaic()
        ]
        programs = [seen_program for program in complete if (seen_program := self._seen(program))]
        if not any(program.defines_it for program in programs):
            pieces = self._statements(region)
            if pieces and (program := self._seen(_ParsedProgram.of(pieces), complete=False)):
                programs.append(program)
        if not any(program.defines_it for program in programs) and (program := self._continued(region)):
            programs.append(program)
        return programs

    def choose(self, programs: Sequence[_ParsedProgram], text: str) -> _ParsedProgram | None:
        """The program to take; None when the text has a better one, which does not parse."""
        defining = [program for program in programs if program.defines_it]
        if defining and self.entry_point:
            complete = [program for program in defining if program.complete]
            return (complete or defining)[-1]
        if self.entry_point:
            if _opening(self.entry_point).search(text):
                return None  # it was written, with a mistake in it: the syntax stage shall say which
            programs = [program for program in programs if any(map(is_definition, program.tree.body))]
        programs = [program for program in programs if program.complete] or programs
        # A script is a program where it lacks nothing; else it shows how another block is used.
        programs = [
            program for program in programs if program.has_function() or not program.lacks()
        ] or programs
        if programs and max(programs, key=lambda program: len(program.text)).has_function():
            programs = [program for program in programs if program.has_function()]
        place = _last_long([program.text for program in programs])
        return None if place is None else programs[place]

    def without_examples(self, program: _ParsedProgram) -> _ParsedProgram:
        """Without the examples at its end, when an entry point is all that is asked for."""
        if not self.entry_point or not program.defines_it:
            return program
        body = program.tree.body
        keep = before_examples(body, self.entry_point)
        if keep == len(body):
            return program
        start = body[keep].lineno
        if (body[keep - 1].end_lineno or 0) >= start:
            return program  # both on one line
        text = "\n".join(program.text.split("\n")[: start - 1]).rstrip() + "\n"
        return self._seen(_ParsedProgram.of(text)) or program

    def completed(self, program: _ParsedProgram, blocks: Sequence[_ParsedProgram]) -> _ParsedProgram:
        """With what it lacks, as far as the answer's other blocks and the prompt's preamble have it."""
        preceding = _ParsedProgram.of(preamble(self.prompt, self.entry_point))
        lacks, bound_names, texts = program.lacks(), binds(program.tree), [program.text.lstrip("\n")]
        for block in [*reversed(blocks), *([preceding] if preceding is not None else [])]:
            names = block.defines()
            if names & lacks and self.entry_point not in names:
                block_names = binds(block.tree)
                bound_names |= block_names
                lacks -= block_names
                lacks |= block.lacks() - bound_names
                texts.append(block.text.strip("\n"))
        return (_ParsedProgram.of("\n\n\n".join(reversed(texts))) or program) if len(texts) > 1 else program

    def _seen(self, program: _ParsedProgram | None, complete: bool = True) -> _ParsedProgram | None:
        if program is None or not program.tree.body:
            return None
        defines_it = not self.entry_point or any(self._defines(statement) for statement in program.tree.body)
        return replace(program, defines_it=defines_it, complete=complete)

    def _defines(self, statement: ast.stmt) -> bool:
        if self.entry_point not in bound(statement):
            return False
        return not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) or _has_body(statement)

    def _continued(self, region: str) -> _ParsedProgram | None:
        """The prompt and then the region, read as the rest of its last function."""
        if not self.prompt or not self.entry_point:
            return None
        head = self.prompt.rstrip() + "\n"
        lines = region.split("\n")
        step = " " * _indentation_of_body(self.prompt)
        flat = textwrap.dedent(region)
        readings = [(region, False)]
        if not any(map(is_definition, getattr(_parse(flat), "body", ()))):
            # Models drop the indentation of the first line, or of all.
            reindented = "\n".join([step + lines[0].lstrip(), *lines[1:]])
            readings += [(reindented, True), (textwrap.indent(flat, step), True)]
        for text, lost in readings:
            program = self._seen(self._longest_prefix(head + text, at_least=head.count("\n")))
            # Prose, indented, is believed to be a body only where it returns something.
            if program is not None and program.defines_it and not (lost and not self._returns(program.tree)):
                return replace(program, complete=program.text == head + text)
        return None

    def _statements(self, text: str) -> str:
        """The lines of a text that are Python, prose left out: runs of whole statements, put together."""
        lines = text.split("\n")
        code = [line for line in lines if _CODE.match(line.lstrip())]
        margin = min((len(line) - len(line.lstrip()) for line in code), default=0)
        lines = [_less(line, margin) for line in lines]
        parts: list[str] = []
        place = runs = 0
        while place < len(lines) and runs < TRIES:
            # A stack of decorators is tried from its first one alone.
            if _CODE.match(lines[place]) and not (place and lines[place][0] == lines[place - 1][:1] == "@"):
                prefix = self._longest_prefix("\n".join(lines[place:]))
                runs += 1
                if prefix is not None:
                    parts.append(prefix.text.rstrip())
                    place += prefix.text.count("\n")
            place += 1
        return "\n\n".join(part for part in parts if part)

    def _longest_prefix(self, text: str, at_least: int = 0) -> _ParsedProgram | None:
        """The most whole top-level statements from the start that parse.

        Args:
            text: of which lines are taken from the start.
            at_least: more lines than so many.
        """
        lines = text.split("\n")
        end = len(lines)
        for _ in range(TRIES):
            text = "\n".join(lines[:end])
            self.labour -= len(text)
            if end <= at_least or self.labour < 0:
                break
            tree = _parse(text)
            if not isinstance(tree, int):
                return _ParsedProgram(text, tree)
            # What is thrown away begins at a line that is not indented: never a part of a statement alone.
            bad = min(tree - 1, end - 1) if tree else -1
            end = next((i for i in range(bad, -1, -1) if _begins_statement(lines, i)), 0)
        return None

    def _returns(self, tree: ast.Module) -> bool:
        functions = [node for node in tree.body if self.entry_point in bound(node)]
        leaves = (ast.Return, ast.Yield, ast.YieldFrom)
        return any(isinstance(node, leaves) for function in functions for node in ast.walk(function))


_QUIET = threading.Lock()


def _parse(text: str) -> ast.Module | int:
    """The tree, or the line (from 1; 0 when unknown) that stands in the way of one."""
    try:
        # A parser warns of odd escapes on standard error; the lock keeps the filters of threads in order.
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        return error.lineno or 0
    except (ValueError, MemoryError, RecursionError):  # null characters; nesting beyond the parser's depth
        return 0


def _begins_statement(lines: Sequence[str], place: int) -> bool:
    line = lines[place]
    decorated = place > 0 and lines[place - 1].startswith("@")
    return bool(line) and not line[0].isspace() and not _CLAUSE.match(line) and not decorated


def _less(line: str, indentation: int) -> str:
    """A line without at most so many leading blanks."""
    return line[min(indentation, len(line) - len(line.lstrip())) :]


def _indentation_of_body(prompt: str) -> int:
    """How far the last function of a prompt indents its body."""
    lines = [line for line in prompt.split("\n") if line.strip()]
    head = next((i for i in range(len(lines) - 1, -1, -1) if re.match(r"(?:async\s+)?def\s", lines[i])), -1)
    following = lines[head + 1] if -1 < head < len(lines) - 1 else ""
    return len(following) - len(following.lstrip()) or 4


def _has_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether there is more than a docstring, `pass` and `...`."""
    return not all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )


def _spoken(answer: str) -> str:
    """The answer without its thoughts, with plain line ends."""
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    # Only as far as each opening tag has a closing one: looking for what is not there takes the square of the time.
    end = max(text.rfind("</think>"), text.rfind("</thinking>")) + len("</thinking>")
    spoken = _THOUGHT.sub("", text[:end]) + text[end:]
    spoken = re.split(r"</think(?:ing)?>", spoken)[-1]  # the opening tag may stand in the chat template
    spoken, *unfinished = re.split(r"<think(?:ing)?>", spoken, maxsplit=1)
    return spoken if spoken.strip() or not unfinished else unfinished[0]


def _by_tag(
    text: str, blocks: Sequence[tuple[str, str]], prompt: str, entry_point: str, language: str
) -> str:
    some = [block for tag, block in blocks if language_of(tag) == language_of(language)]
    some = some or [block for tag, block in blocks if not tag] or [block for _, block in blocks] or [text]
    if not entry_point:
        return some[_last_long(some) or 0]
    defining = [block for block in some if _declares(block, entry_point)]
    if defining:
        return defining[-1]
    named = [block for block in some if re.search(rf"\b{re.escape(entry_point)}\b", block)]
    return named[0] if named else (prompt.rstrip() + "\n" if prompt else "") + max(some, key=len)


def _declares(text: str, name: str) -> bool:
    """Whether a text in any language seems to define the name, and not only to use it."""
    # `const solve = require("./solve")` brings it from elsewhere.
    elsewhere = r"(?!\s*=\s*(?:await\s+)?(?:require|import)\b)"
    name_pattern = rf"(?<![\w$]){re.escape(name)}(?![\w$]){elsewhere}"
    receiver = r"(?:\([^()\n]*\)[ \t]*)?(?:mut[ \t]+)?(?:\w+[.:])?"  # as in Go, Rust and Lua
    if re.search(rf"\b(?:{_DECLARING})\b[ \t*]*{receiver}{name_pattern}|{name_pattern}\s*=(?![=>])", text):
        return True
    # A parameter list, a body behind it, and nothing but types and modifiers before.
    parameters = rf"{name_pattern}(?:\s*<[^<>(){{}};]*>)?\s*{_PARENTHESES}[^;{{}}()=\n]*(?:\n\s*)?(?:\{{|=>)"
    for parameter_list in re.finditer(parameters, text):
        preceding = re.split(r"[\n;{}]", text[max(0, parameter_list.start() - 200) : parameter_list.start()])[
            -1
        ]
        if re.fullmatch(r"[\w\s:<>,*&\[\]?@~]*", preceding) and not _NO_DECLARATION.search(preceding):
            return True
    return False


def _last_long(texts: Sequence[str]) -> int | None:
    """The place of the last that is no snippet: at least half as long as the longest; None when there are none.

    A model quotes what it corrects before it writes the correction, and may show how to use it after.
    """
    sizes = [len(text.strip()) for text in texts]
    most = max(sizes, default=0)
    return next((i for i in reversed(range(len(sizes))) if 2 * sizes[i] >= most), None)


def _opening(entry_point: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{re.escape(entry_point)}\b", re.M)


def _guess(text: str, regions: Sequence[str], prompt: str, entry_point: str) -> str:
    """The text that was meant as the program, though it does not parse."""
    some = [region for region in regions if region.strip()] or [text.strip("\n")]
    named = [block for block in some if entry_point and _opening(entry_point).search(block)]
    if named:
        return named[-1]
    longest = max(some, key=len)
    body = bool(prompt) and longest[:1].isspace()
    return prompt.rstrip() + "\n" + longest if body else longest if longest.strip() else ""
