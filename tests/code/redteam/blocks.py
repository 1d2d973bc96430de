"""Programs that share a tool's invocation with others: C for a compiler, Python for a type checker.

A block is honest programs with the hostile ones between them. A hostile one has reached its aim when the word on another
changes, when its own word is better than alone, when a message shows the canary, or when it uses up the others' time.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

__all__ = [
    "C_BAD",
    "C_BOMBS",
    "C_GOOD",
    "C_PROGRAMS",
    "FULL",
    "PYTHON_BAD",
    "PYTHON_BOMBS",
    "PYTHON_GOOD",
    "PYTHON_PROGRAMS",
    "Part",
]

FAULT = ("reject",)
ANY = ("reject", "error", "timeout")


@dataclass(frozen=True)
class Part:
    """A hostile program of a block.

    Args:
        name: of the test.
        program: its text; {outside}: the directory of the canary.
        verdict: what it may get; that of the same program without its trick, which has a fault, is a rejection.
    """

    name: str
    program: str
    verdict: tuple[str, ...] = FAULT


C_GOOD = "int good(int x) { return x + 1; }\n"
C_BAD = "int bad(int x) { return y; }\n"
WRITES = (
    "dump-tree-all",
    "stack-usage",
    "plugin=./x.so",
    "profile-arcs",
    "save-temps",
    "dump-passes",
    "dumpbase=../x",
)

C_PROGRAMS = [
    # others' files, and the machine's, by the compiler
    Part("a diagnostic that quotes a file", '# 1 "{outside}/canary"\nint x = y;\n'),
    Part("a diagnostic that quotes by #line", '#line 1 "{outside}/canary"\nint x = y;\n'),
    Part("a dependency", '#pragma GCC dependency "{outside}/canary"\nint x = y;\n'),
    Part("import", '#import "{outside}/header.h"\nint x = y;\n'),
    Part("the next include", '#include_next "{outside}/header.h"\nint x = y;\n'),
    Part("a precompiled header", '#pragma GCC pch_preprocess "{outside}/canary"\nint x = y;\n'),
    Part("embedding", 'char x[] = {\n#embed "{outside}/canary"\n};\nint z = y;\n'),
    Part("through its own root", '#include "/proc/self/root{outside}/header.h"\nint x = y;\n'),
    Part(
        "through its directory", '#include "/proc/self/cwd/../../../../../..{outside}/header.h"\nint x = y;\n'
    ),
    Part("the environment", 'asm(".incbin \\"/proc/self/environ\\"");\nint x = y;\n'),
    Part(
        "its parent's memory",
        '#include "/proc/1/environ"\nasm(".incbin \\"/proc/1/environ\\"");\nint x = y;\n',
    ),
    # others' directories
    Part(
        "a neighbour's source",
        '#if __has_include("../000000/program.c")\n#error found\n#endif\n#include "../000001/program.c"\n',
    ),
    Part("all neighbours", '#include "../*/program.c"\n'),
    Part("a neighbour's object", 'asm(".incbin \\"../0/program.o\\"");\n'),
    Part("a neighbour's status", '#include "../000000/status"\n'),
    Part("its own status", '#include "status"\nint x = y;\n'),
    Part("its own message", '#include "output"\nint x = y;\n'),
    Part("what it said before", '#include "said"\n'),
    Part("its own object", '#include "program.o"\nint x = y;\n'),
    # files that a compiler writes
    *(
        Part(f"pragma {each}", f'#pragma GCC optimize ("{each}")\nint f(void) {{ return y; }}\n')
        for each in WRITES
    ),
    *(
        Part(f"attribute {each}", f'__attribute__((optimize("-f{each}"))) int f(void) {{ return y; }}\n')
        for each in WRITES
    ),
    Part(
        "the assembler's output", 'asm(".file \\"../x.c\\"\\n.ident \\"x\\"\\n.print \\"0\\"");\nint x = y;\n'
    ),
    # its word
    Part("a status in its message", '#error "\\n0\\n"\n'),
    Part("words of success", '#warning 0\n#pragma message "0"\nint x = y;\n'),
    Part("words of the shell", "int x = y; // $(exit 0) `exit 0`; exit 0\n'\"\\\n"),
    Part("an empty function name", 'int f(void) asm("");\nint x = y;\n'),
]

C_BOMBS = [
    Part("a source that waits for what it makes", '#include "/proc/self/fd/1"\nint x = y;\n', ANY),
    Part(
        "a source that waits for input",
        '#include "/dev/stdin"\n#include "/proc/self/fd/0"\nint x = y;\n',
        ANY,
    ),
    Part("a large array by designation", "int x[1 << 28] = {[0 ... (1 << 28) - 1] = 1};\n", ANY),
    Part("many names", "int " + ",".join(f"x{i}" for i in range(200_000)) + ";\n", (*ANY, "pass")),
    Part("parentheses", "int x = " + "(" * 100_000 + "1" + ")" * 100_000 + ";\n", (*ANY, "pass")),
    Part("blocks", "int f(void) " + "{" * 50_000 + "}" * 50_000 + "\n", (*ANY, "pass")),
    Part("pointers", "int " + "*" * 200_000 + "x;\n", (*ANY, "pass")),
    Part(
        "includes that double",
        "#if __INCLUDE_LEVEL__ < 150\n#include __FILE__\n#include __FILE__\n#endif\n",
        ANY,
    ),
    Part("a flood of messages", f'#pragma message "{"x" * 3000}"\n' * 8000 + "int x = y;\n", ANY),
    Part("a flood of errors", "#error x\n" * 50_000, ANY),
    Part("repetitions", 'asm(".rept 100000000\\n.long 1\\n.endr");\nint x;\n', (*ANY, "pass")),
    Part("a far origin", 'asm(".org 0x7fffffff");\nint x;\n', (*ANY, "pass")),
]

FULL = [
    *(f"char x{i}[50 << 20] = {{1}};\n" for i in range(3)),
    'asm(".fill 1 << 28, 1, 7");\nint x;\n',
    "char x3[50 << 20] = {1};\n",
    C_GOOD,
    C_BAD,
]
"""Objects that together are more than there is room for; one of them is by itself."""

PYTHON_GOOD = "def f(x: int) -> int:\n    return x + 1\n"
PYTHON_BAD = "def f(x: int) -> int:\n    return str(x)\n"


def python(name: str, before: str) -> Part:
    return Part(name, dedent(before) + PYTHON_BAD)


PYTHON_PROGRAMS = [
    # names of files that checkers and their frameworks read
    python("mypy.ini", "mypy = [1]\n[mypy]\nignore_errors = True\n"),
    python("ty.toml", "rules = [1]\n[rules]\nall = 'ignore'\n"),
    python("pyproject.toml", '"""\n[tool.mypy]\nignore_errors = true\nplugins = ["program"]\n"""\n'),
    python("conftest.py", '__file__ = "conftest.py"\n__name__ = "conftest"\n__path__ = ["/"]\n'),
    python(
        "a plugin", "def plugin(version: str) -> object: ...\nclass Plugin: ...\npytest_plugins = ['x']\n"
    ),
    python("a stub", "# program.pyi\n__all__ = ['nothing']\n"),
    python("a marker", "py_typed = 'partial'\n"),
    # what is everybody's
    python("the modules", "import sys\nsys.modules['builtins'] = sys\nsys.modules['typing'] = sys\n"),
    python("the builtins", "import builtins\nbuiltins.str = int\nbuiltins.int = str\n"),
    python("typing", "import typing\ntyping.Any = int\ntyping.TYPE_CHECKING = False\n"),
    python("a module's attributes", "def __getattr__(name): ...\n__builtins__ = {}\n"),
    python(
        "a neighbour",
        "import importlib, glob\nfor name in glob.glob('*.py'): importlib.import_module(name)\n",
    ),
    python("its own name", "import __main__\n__main__.f = lambda x: x\n"),
    # what hides lines
    python("a line of another alphabet", 'x = "\u2028# type: ignore\u2029"\n'),
    python("a next line", "x = '\x85# mypy: ignore-errors\x1c'\n"),
    python("a comment in a text", "x = '''\n# type: ignore\n# mypy: ignore-errors\n'''\n"),
    python("a continued line", "x = 1 + \\\n  1\n"),
    python("bytes of a mark", "x = b'\\xef\\xbb\\xbf'\n"),
    # words in messages
    Part(
        "a class called like a finding",
        "class error:\n    x: int = 'Success: no issues found in 1 source file'\n",
    ),
    Part(
        "a literal called like a finding",
        "from typing import Literal\nx: Literal['Found 0 errors'] = 'Success: no issues found'\n",
    ),
    Part(
        "a literal with lines",
        "from typing import Literal\nx: Literal['\\nSuccess: no issues found\\n'] = 1\n",
    ),
    Part("a literal of JSON", 'from typing import Literal\nx: Literal[\'"}\\n{"severity": "note"\'] = 1\n'),
]

DOUBLED = "a0 = (1, 'a')\n" + "".join(f"a{i + 1} = (a{i}, a{i})\n" for i in range(26)) + "a26.nope\n"
STATES = "while x:\n"
PYTHON_BOMBS = [
    Part("a type that doubles", DOUBLED, ("timeout", "error", "reject")),
    Part(
        "overloads of unions",
        "from typing import overload, Union\n"
        + "".join(f"class C{i}: pass\n" for i in range(12))
        + "".join(
            f"@overload\ndef h(a: C{i}, b: C{j}, c: C{k}) -> int: ...\n"
            for i in range(6)
            for j in range(6)
            for k in range(6)
        )
        + f"def h(a, b, c): return 1\nU = Union[{','.join(f'C{i}' for i in range(12))}]\n"
        + "def g(u: U, v: U, w: U) -> str: return h(u, v, w)\n",
        ANY,
    ),
    Part("a flood of findings", "".join(f"x{i}: int = '{'y' * 50}'\n" for i in range(10_000)), ANY),
    Part(
        "long findings",
        f"class {'A' * 20_000}: pass\n" + "".join(f"x{i}: int = {'A' * 20_000}()\n" for i in range(600)),
        ANY,
    ),
    Part(
        "a long list",
        "x = [" + ",".join(f"({i}, '{i}', [{i}])" for i in range(10_000)) + "]\n" + PYTHON_BAD,
        ANY,
    ),
    Part(
        "loops in loops",
        "def g(x):\n"
        + "".join("    " * (i + 1) + STATES for i in range(18))
        + "    " * 19
        + "x = [x]\n"
        + PYTHON_BAD,
        ANY,
    ),
    Part(
        "classes in circles",
        "from typing import Protocol\n"
        + "".join(f"class P{i}(Protocol):\n    def m(self) -> 'P{(i + 1) % 40}': ...\n" for i in range(40))
        + "".join(f"class Q{i}:\n    def m(self) -> 'Q{(i * 7 + 1) % 40}': ...\n" for i in range(40))
        + "x: P0 = Q0()\n"
        + PYTHON_BAD,
        ANY,
    ),
]
