"""How programs of each language are compiled and run, apart from each other: a table, and what is done with it.

What decides is a tool's exit status. A tool that is missing, or that does not work where the programs run, is found out
with a program that surely is right, before anything is said of another one.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from draftverify import Check, ConfigError, ResourceError
from draftverify_code.program import language_of
from draftverify_code.sandbox.host import Sandbox, default_sandbox
from draftverify_code.sandbox.jobs import MIB, CommandExit, Limits, SandboxCommand
from draftverify_code.stages.blocks import broken, executable, outside
from draftverify_code.stages.running import abnormal, capped, denied_at_end, numpy_for

BUILD = Limits(
    wall=60.0, cpu=120.0, memory=4096 * MIB, reserve=16384 * MIB, disk=256 * MIB, files=8192, processes=128,
    threads=512,
)  # fmt: skip
INPUT = ".input"
VIRTUAL = 4096
"""MiB of address space that a runtime reserves beside what its program uses: Java's, Go's, JavaScript's."""


class ProcessEnding(msgspec.Struct, frozen=True):
    """What makes a file called `{nonce}` once a program's `main` has come to its end.

    Args:
        text: source; `{name}` is the program's main class, `{package}` its package.
        file: where it stands when the program is compiled; "" where it goes behind what is run.
        flags: further arguments of `build`.
        ahead: what goes in front of what is run.
    """

    text: str = ""
    file: str = ""
    flags: str = ""
    ahead: str = ""


class Toolchain(msgspec.Struct, frozen=True):
    """The tools of one language. Commands are as for a shell; in them `{file}` is a program's file, `{name}` its name
    without a suffix, `{memory}` the MiB that it may use, and a tool's name stands for where it is.

    Args:
        suffix: of a program's file.
        run: what runs a program, or what was built of it.
        tools: the programs that must be installed.
        package: what brings them, for who has to install it.
        check: what refuses a program that does not compile, which need not have a `main`; the file comes last.
        build: what makes `built` of a whole program; "" when it is run as it stands.
        built: the file that `run` needs; "" for the program's own.
        quiet: arguments of `check` and `build` that leave warnings out, which do not decide.
        test_build: of tests that a framework collects their mark, the `build` for them, and the suffix.
        ending: what tells tests that came to their end from a program that ended them.
        anew: what stands between a program and its tests.
        sample: a whole program that compiles and ends with status 0.
        reserve: MiB of address space beside the program's memory.
    """

    suffix: str
    run: str
    tools: tuple[str, ...] = ()
    package: str = ""
    check: str = ""
    build: str = ""
    built: str = "main"
    quiet: str = ""
    test_build: tuple[str, str, str] | None = None
    ending: ProcessEnding = ProcessEnding()
    anew: str = ""
    sample: str = ""
    reserve: int = 0

    def for_tests(self, test: str) -> Toolchain:
        """The one for a task's tests, which may need a framework's runner."""
        if self.test_build is None or self.test_build[0] not in test:
            # A main() of Go's is nobody's to call.
            return replace(self, ending=ProcessEnding()) if self.ending is _COLLECTED else self
        _, command, suffix = self.test_build
        return replace(self, build=command, suffix=suffix)

    @property
    def readable(self) -> tuple[Path, ...]:
        """Further paths that a sandbox must show. Raises ResourceError: a tool is not installed."""
        paths = {tool: _located(tool, self.package) for tool in self.tools}
        return outside(*(path.parent.parent if tool == "rustc" else path for tool, path in paths.items()))

    def words(self, command: str, file: str, **blanks: object) -> tuple[str, ...]:
        """A command's words. Raises ResourceError: a tool is not installed."""
        words = [_filled(word, file, **blanks) for word in shlex.split(command)]
        return tuple(str(_located(word, self.package)) if word in self.tools else word for word in words)

    def file_name(self, text: str) -> str:
        """The name of a program's file; Java wants that of its class, by which it is also run."""
        stem = "main"
        if self.suffix == ".java":
            classes = list(_CLASS.finditer(text))
            start = text.rfind("static void main")
            named = [found[2] for found in classes if found.start() < start]
            stem = (named or [found[2] for found in classes if "public" in found[1]] or ["Main"])[-1]
        return stem + self.suffix


_CLASS = re.compile(r"^((?:\w+[ \t]+)*)class[ \t]+(\w+)", re.MULTILINE | re.ASCII)


def _filled(text: str, file: str, **blanks: object) -> str:
    words = {"file": file, "name": file.partition(".")[0], **blanks}
    return re.sub(r"\{(\w+)\}", lambda blank: str(words.get(blank[1], blank[0])), text)


class BuiltProgram(msgspec.Struct, frozen=True):
    """A program that is ready to run.

    Args:
        toolchain: of its language.
        file: the name of its source.
        files: what its run needs.
        nonce: the file that it makes once its `main` has come to its end; "" for none.
    """

    toolchain: Toolchain
    file: str
    files: Mapping[str, bytes]
    nonce: str = ""

    def run(self, limits: Limits, stdin: bytes | None = None) -> SandboxCommand:
        """What runs it; with the address space that its runtime takes."""
        argv = self.toolchain.words(self.toolchain.run, self.file, memory=limits.memory // MIB)
        limits = replace(limits, reserve=self.toolchain.reserve * MIB)
        command = SandboxCommand(argv, self.files, collect=(self.nonce,) if self.nonce else (), limits=limits)
        if stdin is None:
            return command
        # A file, as in contests: programs may ask how long their input is.
        return replace(command, files={**self.files, INPUT: stdin}, input=INPUT)


@lru_cache
def _located(tool: str, package: str) -> Path:
    path = executable(tool, f"Debian: apt install {package}; or give `code.command` a command of your own")
    if tool == "rustc" and outside(path):
        # Beside rustup's `rustc` there is nothing: it asks which of many is meant, each in a directory of its own.
        asked = subprocess.run([path, "--print", "sysroot"], capture_output=True, text=True, check=False)
        path = Path(asked.stdout.strip(), "bin", "rustc") if asked.returncode == 0 else path
    return path


_NATIVE = "int main(void) { return 0; }\n"
_WRAP = """\
#include <fcntl.h>
int __real_main(int, char **, char **);
int __wrap_main(int count, char **words, char **variables) {
    int status = __real_main(count, words, variables);
    return status == 0 && creat("{nonce}", 0600) < 0 ? 97 : status;
}
"""
_NATIVELY = ProcessEnding(_WRAP, "{nonce}.c", "-x c {nonce}.c -Wl,--wrap=main")
_LINKED = ProcessEnding(_WRAP, "{nonce}.c", "-C link-arg={nonce}.c -C link-arg=-Wl,--wrap=main")
_ANEW = "#undef NDEBUG\n#undef assert\n#undef main\n#include <assert.h>"
_MACROS = "\n".join(
    f"macro_rules! {name} {{ ($($words:tt)*) => {{ ::std::{name}!($($words)*) }} }}"
    for name in ("assert", "assert_eq", "assert_ne")
)
_COLLECTED = ProcessEnding(
    """\
package {package}
import ("os"; "testing")
func TestMain(m *testing.M) {
    status := m.Run()
    if status == 0 { os.WriteFile("{nonce}", nil, 0600) }
    os.Exit(status)
}
""",
    "{nonce}_test.go",
    "{nonce}_test.go",
)
_CALLED = ProcessEnding(
    """\
class {nonce} {
    public static void main(String[] words) throws Throwable {
        {name}.main(words);
        new java.io.File("{nonce}").createNewFile();
    }
}
""",
    "{nonce}.java",
    "{nonce}.java",
)
_REQUIRE = (
    "(globalThis.process.getBuiltinModule || require)"  # the first for modules, which have no `require`
)
_AROUND = ProcessEnding(
    f'\n;{_REQUIRE}("fs").writeFileSync("{{nonce}}", "")\n',
    ahead=f'for (const own of [{_REQUIRE}("assert"), {_REQUIRE}("assert").strict]) Object.freeze(own); '
    'Object.defineProperty(console, "assert", '
    f'{{ value: {_REQUIRE}("assert"), writable: false, configurable: false }}); ',
)
_RUSTC = "rustc --edition 2021 -C debuginfo=0 -C strip=symbols"
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
_JAVAC = f"javac {_JVM.replace('-XX', '-J-XX')} -encoding UTF-8 -proc:none -d out"
_JAVA = f"java -ea {_JVM} -Xmx{{memory}}m -cp out {{name}}"
_TSC = "tsc --target es2021 --module commonjs --esModuleInterop --lib es2021,dom --skipLibCheck --typeRoots . node.d.ts"
_NODES_OWN = "require process Buffer module exports global setImmediate __dirname __filename"

LANGUAGES: dict[str, Toolchain] = {
    "python": Toolchain(".py", shlex.join((sys.executable, "-s", "{file}"))),
    "c": Toolchain(
        ".c", "./main", ("cc",), "gcc", "cc -c -pipe -o program.o", "cc -O1 -o main {file} -lm", quiet="-w",
        ending=_NATIVELY, anew=_ANEW, sample=_NATIVE,
    ),
    "c++": Toolchain(
        ".cpp", "./main", ("c++",), "g++", "c++ -std=gnu++2a -c -pipe -o program.o",
        "c++ -std=gnu++2a -O1 -o main {file}", quiet="-w",
        ending=_NATIVELY, anew=_ANEW, sample=_NATIVE,
    ),
    "rust": Toolchain(
        ".rs", "./main", ("rustc",), "rustc gcc", f"{_RUSTC} --crate-type lib --emit metadata -o program.rmeta",
        f"{_RUSTC} -o main {{file}}", quiet="-A warnings", ending=_LINKED, anew=_MACROS, sample="fn main() {}\n",
        test_build=("#[test]", f"{_RUSTC} --test -o main {{file}}", ".rs"),
    ),
    "go": Toolchain(
        ".go", "./main", ("go",), "golang", "go test -c -o program", "go build -o main {file}", reserve=VIRTUAL,
        ending=_COLLECTED,
        sample="package main\n\nfunc main() {}\n", test_build=("testing.T", "go test -c -o main {file}", "_test.go"),
    ),
    "java": Toolchain(
        ".java", f"sh -c 'tar xmf main.tar && exec \"$@\"' sh {_JAVA}", ("javac", "java"), "default-jdk-headless",
        _JAVAC, f"sh -c '\"$@\" && tar cf main.tar out' sh {_JAVAC} {{file}}", built="main.tar", quiet="-nowarn",
        ending=_CALLED,
        sample="class Main {\n    public static void main(String[] words) {}\n}\n", reserve=VIRTUAL,
    ),
    "javascript": Toolchain(
        ".js", "node {file}", ("node",), "nodejs", "node --check", "node --check {file}", built="", reserve=VIRTUAL,
        ending=_AROUND, sample="console.log(1);\n",
    ),
    "typescript": Toolchain(
        ".ts", "node main.js", ("tsc", "node"), "node-typescript nodejs", f"{_TSC} --noEmit", f"{_TSC} {{file}}",
        built="main.js", ending=_AROUND, sample="const one: number = 1;\n", reserve=VIRTUAL,
    ),
}  # fmt: skip


def toolchain_of(language: str) -> Toolchain:
    """The tools of a language, by its name or the one of its files.

    Raises:
        ConfigError: it has none here.
    """
    toolchain = LANGUAGES.get(language_of(language))
    if toolchain is None:
        raise ConfigError(
            f"{language!r} is not among {', '.join(LANGUAGES)}; give `code.command` a command for it",
            path="language",
        )
    return toolchain


def box_for(sandbox: Sandbox | None, toolchain: Toolchain, programs: Iterable[str] = ()) -> Sandbox:
    """The sandbox, or a shared one that shows the tools, and NumPy where one of these Python programs imports it.

    Whether the tools work there is found out once.

    Raises:
        ResourceError: one is not installed, or does not compile and run what is right.
    """
    packages = numpy_for(programs) if toolchain.suffix == ".py" else ()
    box = default_sandbox(tuple(packages), toolchain.readable) if sandbox is None else sandbox
    proven = _proven.setdefault(box, set())
    if not toolchain.tools or toolchain in proven:
        return box
    [check] = run_each(box, build(box, toolchain, [toolchain.sample]), Limits())
    if check.verdict != "pass":
        raise ResourceError(
            f"{toolchain.tools[0]} does not compile and run {toolchain.sample!r} in the sandbox (tier {box.tier}); a "
            f"tool that is not the system's needs its directory among `readable`. {check.feedback}"
        )
    proven.add(toolchain)
    return box


_proven: WeakKeyDictionary[Sandbox, set[Toolchain]] = WeakKeyDictionary()


def build(
    box: Sandbox, toolchain: Toolchain, texts: Sequence[str], nonce: str = ""
) -> list[Check | BuiltProgram]:
    """Compile whole programs, each once and by itself.

    Args:
        box: where.
        toolchain: of their language.
        texts: the programs.
        nonce: the file that each is to make once its `main` has come to its end, where its language can; "" for none.

    Returns:
        For each what is to be run, or why there is nothing: "reject" for what the compiler refused, "error" or
        "timeout" where it failed itself.
    """
    nonce = nonce if toolchain.ending.text else ""
    programs = [source_of(toolchain, text, nonce) for text in texts]
    if toolchain.build:
        flags = toolchain.ending.flags if nonce else ""
        commands = [
            SandboxCommand(
                toolchain.words(f"{toolchain.build} {toolchain.quiet} {flags}", program.file, nonce=nonce),
                program.files,
                collect=(toolchain.built,) if toolchain.built else (),
                limits=BUILD,
            )
            for program in programs
        ]
        built = zip(programs, box.run(commands), strict=True)
        return [refusal(ended, BUILD) or _made(program, ended.files) for program, ended in built]
    return list(programs)


def source_of(toolchain: Toolchain, text: str, nonce: str = "") -> BuiltProgram:
    """A program before it is compiled, with what tells that it came to its end."""
    file, ending = toolchain.file_name(text), toolchain.ending
    if toolchain.suffix == ".java":
        text = _as_one_file(text, file.removesuffix(".java"))
    files = {file: text.encode(errors="replace")}
    if toolchain.suffix == ".ts":
        files["node.d.ts"] = _nodes_own(text)
    if nonce and ending.file:
        package = re.search(r"^package (\w+)", text, re.MULTILINE)
        blanks = {"nonce": nonce, "package": package[1] if package else "main"}
        files[_filled(ending.file, file, **blanks)] = _filled(ending.text, file, **blanks).encode()
    return BuiltProgram(toolchain, file, files, nonce)


def _as_one_file(text: str, name: str) -> str:
    """A text of Java as javac takes it in a file by itself: in no package, and public no class but the file's."""
    text = re.sub(r"^[ \t]*package[ \t]+[\w.]+[ \t]*;", "", text, flags=re.MULTILINE)
    kinds = r"(?:(?:final|abstract)[ \t]+)?(?:class|interface|enum|record)"
    return re.sub(rf"^public[ \t]+(?={kinds}[ \t]+(?!{name}\b))", "", text, flags=re.MULTILINE)


def _nodes_own(text: str) -> bytes:
    """Declarations of what Node has, of which no types are here, but for names that a program declares itself."""
    own = r"\b(?:const|let|class|function)\s+(?:{{[^}}]*\b)?{}\b"
    names = [name for name in _NODES_OWN.split() if not re.search(own.format(name), text)]
    return "".join(['declare module "*";\n', *(f"declare var {name}: any;\n" for name in names)]).encode()


def _made(program: BuiltProgram, built: Mapping[str, bytes]) -> BuiltProgram | Check:
    """A program as it runs, of what the compiler made; why not, where that is none."""
    toolchain = program.toolchain
    content = built.get(toolchain.built, b"")
    if toolchain.built and (not content or (toolchain.built == "main" and content[:4] != b"\x7fELF")):
        return Check("reject", reason="compile", feedback="it compiles to no program that runs")
    files, file, ending = built or program.files, program.file, toolchain.ending
    if program.nonce:
        if not ending.file:
            end = _filled(ending.text, file, nonce=program.nonce).encode()
            files = {
                name: _put_ahead(ending.ahead.encode(), content) + end for name, content in files.items()
            }
        elif "{name}" in toolchain.run:
            file = _filled(ending.file, file, nonce=program.nonce)
    return replace(program, files=files, file=file)


def _put_ahead(start: bytes, script: bytes) -> bytes:
    """A script of Node's behind another: still in strict mode where it asks for that, and a `#!` is no first line."""
    mode = b'"use strict"; ' if _STRICT.match(script) else b""
    return mode + start + re.sub(rb"\A#!", b"//", script)


_STRICT = re.compile(rb"(?:#!.*)?(?:\s|//.*|/\*[\s\S]*?\*/)*(?:'use strict'|\"use strict\")")


def run_each(box: Sandbox, programs: Sequence[Check | BuiltProgram], limits: Limits) -> list[Check]:
    """Run what could be built: status 0, once `main` has come to its end where its language can tell, passes."""
    ends = iter(box.run([program.run(limits) for program in programs if isinstance(program, BuiltProgram)]))
    return [
        program
        if isinstance(program, Check)
        else abnormal(ended := next(ends), limits) or _ended_early(program, ended) or by_status(ended)
        for program in programs
    ]


def _ended_early(program: BuiltProgram, ended: CommandExit) -> Check | None:
    """The rejection of a program that ended its process itself, before its `main` had come to its end."""
    if ended.status or program.nonce in ("", *ended.files):
        return None
    return Check("reject", reason="exit", feedback="its process ended with status 0 before its tests did")


def refusal(ended: CommandExit, limits: Limits) -> Check | None:
    """What a compiler said against a program; None when it said nothing."""
    output = (ended.stderr + ended.stdout).decode(errors="replace").strip()
    if ended.failure:
        return abnormal(ended, limits)
    if ended.limit or ended.status is None or (ended.status and broke(ended.status, output)):
        # One of the compiler's processes may have been ended for it; the kernel's ticks run ahead of what usage says.
        if not ended.limit and ended.cpu >= limits.cpu / 2:
            ended = replace(ended, limit="cpu")
        return broken("the compiler", ended, limits)
    if ended.status:
        output = output or f"the compiler ended with status {ended.status}"
        return Check("reject", reason="compile", feedback=capped(output))
    return None


def by_status(ended: CommandExit) -> Check:
    """The check of a command that came to its end: status 0 passes."""
    if ended.status == 0:
        return Check("pass")
    output = capped((ended.stdout + ended.stderr).decode(errors="replace").strip())
    check = Check("reject", reason="status", feedback=f"it ended with status {ended.status}\n{output}")
    return denied_at_end(ended.stderr.decode(errors="replace").strip()) or check


def broke(status: int, output: str) -> bool:
    """Whether a compiler that ended with a status other than 0, and such words, failed itself: on a full disk too."""
    return status >= 126 or _BROKEN.search(own_words(output)) is not None


def own_words(output: str) -> str:
    """The lines of a compiler's output in which it speaks of itself: "" when it names an error in the program.

    What quotes the program belongs to such an error, which is told by its place and the word after it; or it is a line
    of source, indented or with its number; or it begins with the place itself.
    """
    if _FOUND.search(output):
        return ""
    return "\n".join(line for line in output.split("\n") if not _ON_PROGRAM.match(line))


_FOUND = re.compile(
    r"(:\d+(:\d+)?: (fatal )?|\(\d+,\d+\): )error\b(?!: error (while )?writing )", re.IGNORECASE
)
"""`main.c:2:12: error: …`, `main.ts(2,12): error TS1005: …`. That what it makes cannot be written is none."""

_ON_PROGRAM = re.compile(r"\s|\d+ +\||(?!.*error: error (while )?writing ).*[:(]\d+[:,)]", re.IGNORECASE)

_BROKEN = re.compile(
    r"internal compiler error|out of memory|memory exhausted|[Cc]annot allocate memory|No space left|"
    r"signal terminated program|unable to execute command|unexpectedly panicked|initialization of VM|"
    r"[Ii]nsufficient memory|java\.lang\.\w*Error|(?i:please (submit|file|report) (a|this)\b.* bug)"
)
"""How compilers say that they failed. A program that makes its messages say so is not accepted either."""
