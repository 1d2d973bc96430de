"""Programs of other languages with a task's tests behind them, by real compilers: every kind of program, every tier."""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest

from draftverify import ConfigError, Proposal, ResourceError, Task
from draftverify.kit import Subject, check_component, make_context
from draftverify_code.sandbox import Sandbox
from draftverify_code.stages.cases import Cases
from draftverify_code.stages.command import ExitStatus
from draftverify_code.stages.compile import Compile
from draftverify_code.stages.language import LanguageTests
from draftverify_code.stages.toolchains import LANGUAGES, Toolchain, toolchain_of


class Problem(NamedTuple):
    """A task in the manner of HumanEval-X: `prompt` and a body are a program, `test` follows it.

    `bodies` are: right, wrong, one that does not compile, one that hangs, one that floods its output and is wrong.
    """

    prompt: str
    bodies: tuple[str, str, str, str, str]
    test: str
    setup: str = ""


_C = (
    "return a + b; }",
    "return a - b; }",
    "return a + c; }",
    "for (;;) ; }",
    'for (int i = 0; i < 99999; i++) { puts("pass"); fputs("\\x1b[2J\\xff\\n", stderr); } return 9; }',
)
_SCRIPT = (
    "return a + b; }",
    "return a - b; }",
    "return a + ; }",
    "for (;;) ; }",
    'for (let i = 0; i < 9999; i++) { console.log("pass"); console.error("\\x1b[2J"); } return 9; }',
)
PROBLEMS = {
    "c": Problem(
        "#include <stdio.h>\nint add(int a, int b) { ",
        _C,
        "#include <assert.h>\nint main(void) { assert(add(1, 2) == 3); return 0; }",
    ),
    "c++": Problem(
        "#include <cstdio>\n#include <vector>\nusing namespace std;\nint add(int a, int b) { ",
        _C,
        "#undef NDEBUG\n#include <assert.h>\nint main() { vector<int> v{3}; assert(add(1, 2) == v[0]); }",
    ),
    "rust": Problem(
        "fn add(a: i32, b: i32) -> i32 { ",
        (
            "a + b }",
            "a - b }",
            "a + c }",
            "loop {} }",
            'for _ in 0..9999 { println!("pass"); eprintln!("\\x1b[2J"); } 9 }',
        ),
        "fn main() { assert_eq!(add(1, 2), 3); }",
    ),
    "go": Problem(
        "func add(a int, b int) int { ",
        (
            "return a + b }",
            "return a - b }",
            "return a + c }",
            "for {} }",
            'for i := 0; i < 9999; i++ { fmt.Println("pass"); println("\\x1b[2J") }; return 9 }',
        ),
        "func TestAdd(t *testing.T) {\n\tif add(1, 2) != 3 {\n\t\tt.Fatal(fmt.Sprint(add(1, 2)))\n\t}\n}",
        setup='package main\n\nimport (\n\t"fmt"\n\t"testing"\n)',
    ),
    "java": Problem(
        "import java.util.*;\nclass Solution {\n    public int add(int a, int b) { ",
        (
            "return a + b; } }",
            "return a - b; } }",
            "return a + c; } }",
            "while (a > 0) { } return b; } }",
            'for (int i = 0; i < 9999; i++) { System.out.println("pass"); System.err.println("\\u001b[2J"); }'
            " return 9; } }",
        ),
        "public class Main {\n    public static void main(String[] args) {\n"
        "        assert new Solution().add(1, 2) == List.of(3).get(0);\n    }\n}",
    ),
    "javascript": Problem(
        "const add = (a, b) => { ", _SCRIPT, "const test = () => { console.assert(add(1, 2) === 3) }\ntest()"
    ),
    "typescript": Problem(
        "function add(a: number, b: number): number { ",
        (*_SCRIPT[:2], "return `${a + b}`; }", *_SCRIPT[3:]),
        'declare var require: any;\nconst assert = require("node:assert");\nassert.deepEqual(add(1, 2), 3);',
    ),
}
RUST = Problem(
    PROBLEMS["rust"].prompt,
    PROBLEMS["rust"].bodies,
    "#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn adds() { assert_eq!(add(1, 2), 3); }\n}",
    setup="fn main() {}",
)
EXPECTED = [
    ("pass", ""),
    ("reject", "status"),
    ("reject", "compile"),
    ("reject", "wall"),
    ("reject", "status"),
]


def needs(language):
    absent = [tool for tool in LANGUAGES[language].tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(absent), reason=f"no compiler of {language}")


QUICK = ("c", "rust", "java", "javascript")
EACH = [
    pytest.param(language, marks=[needs(language), *([] if language in QUICK else [pytest.mark.exhaustive])])
    for language in PROBLEMS
]


def checks_of(stage, problem, bodies, **fields):
    task = Task(id="t", input={"test": problem.test, "setup": problem.setup, **fields})
    programs = [problem.prompt + body for body in bodies]
    return stage.verify(make_context(task), Proposal.alternatives(programs)).checks


@pytest.mark.parametrize("language", EACH)
def test_each_kind_of_program_has_its_outcome(language):
    """What the compiler refuses, what fails and what hangs are told apart; output is no word on a program."""
    problem = PROBLEMS[language]
    found = checks_of(LanguageTests(timeout=2), problem, problem.bodies, language=language)
    outcomes = [(check.verdict, check.reason.replace("exit", "status")) for check in found]
    assert outcomes == EXPECTED
    assert {check.caveat for check in found if check.reason != "compile"} == {"shared-process"}
    assert "error" in found[2].feedback.lower() or "undefined: c" in found[2].feedback
    assert all(len(check.feedback) < 2100 for check in found)


WRONG = "return a - b; }\n"
FORGERIES = {
    "c": [
        "_exit(0); }",
        f"{WRONG}__attribute__((constructor)) static void leave(void) {{ _exit(0); }}",
        f"{WRONG}#define NDEBUG\n#include <assert.h>",
        f"{WRONG}#define assert(x) ((void)0)",
        f"{WRONG}int main(void) {{ return 0; }}\n#define main other",
        f"{WRONG}int main(void) {{ return 0; }}\n#if 0",
        f"{WRONG}int __wrap_main(int a, char **b, char **c) {{ return 0; }}",
        f"{WRONG}void __assert_fail(const char *a, const char *b, unsigned c, const char *d) {{ _exit(0); }}",
        f"{WRONG}int __libc_start_main(void *a, int b, void *c) {{ _exit(0); }}",
        f'{WRONG}static void *pick(void) {{ _exit(0); }}\nint one(void) __attribute__((ifunc("pick")));\n'
        "int (*used)(void) = one;",
        f"{WRONG}#include <signal.h>\nstatic void leave(int n) {{ _exit(0); }}\n"
        "__attribute__((constructor)) static void handle(void) { signal(SIGABRT, leave); }",
    ],
    "c++": [
        "std::quick_exit(0); }",
        f"{WRONG}#include <thread>\nstruct A {{ A() {{ std::thread([] {{ _exit(0); }}).detach(); }} }} a;",
        "throw 1; }\n#include <exception>\nstruct A { A() { std::set_terminate([] { _exit(0); }); } } a;",
    ],
    "rust": [
        "std::process::exit(0) }",
        "a - b }\nmacro_rules! assert_eq { ($($x:tt)*) => {} }",
        "std::panic::set_hook(Box::new(|_| std::process::exit(0))); a - b }",
        'a - b }\n#[used]\n#[link_section = ".init_array"]\nstatic LEAVE: extern "C" fn() = leave;\n'
        'extern "C" fn leave() { std::process::exit(0) }',
    ],
    "go": [
        "os.Exit(0); return 0 }",
        "return a - b }\nfunc init() { os.Exit(0) }",
        "runtime.Goexit(); return 0 }",
        "return a - b }\nfunc TestMain(m *testing.M) {}",
    ],
    "java": [
        "System.exit(0); return 0; } }",
        "Thread.setDefaultUncaughtExceptionHandler((t, e) -> Runtime.getRuntime().halt(0)); return a - b; } }",
        "ClassLoader.getSystemClassLoader().setDefaultAssertionStatus(false); return a - b; } }",
        "return a - b; }\nstatic { Runtime.getRuntime().halt(0); } }",
    ],
    "javascript": [
        "process.exit(0) }",
        "return a - b }\nprocess.on('exit', () => { process.exitCode = 0 })",
        "return a - b }\nprocess.on('uncaughtException', () => {})",
        "return a - b }\nconsole.assert = () => {}",
        "return a - b }\nObject.defineProperty(console, 'assert', { value: () => {} })",
    ],
    "typescript": [
        "(globalThis as any).process.exit(0); return 0; }",
        "return a - b }\nrequire('assert').deepEqual = () => {}",
    ],
}
"""Programs that would end, or not feel, their tests: before `main`, in it, at its end, by what tests are made of."""
USED = {
    "c": "#include <unistd.h>\n",
    "c++": "#include <cstdlib>\n#include <unistd.h>\n",
    "go": 'package main\nimport ("os"; "runtime"; "testing")\nvar _, _ = os.Exit, runtime.Goexit\n',
}


@pytest.mark.parametrize("language", EACH)
def test_no_program_ends_its_tests_itself(language):
    """Status 0 is no pass before the tests came to the end of their main(); and they have asserts of their own."""
    problem = PROBLEMS[language]._replace(setup=USED.get(language, ""))
    if language == "go":
        problem = problem._replace(test="func TestAdd(t *testing.T) { if add(1, 2) != 3 { t.Fatal() } }")
    checks = checks_of(LanguageTests(language), problem, [problem.bodies[0], *FORGERIES[language]])
    assert [check.verdict for check in checks] == ["pass", *["reject"] * len(FORGERIES[language])]


@needs("c++")
def test_tests_may_bring_the_brace_that_ends_a_program():
    """As MultiPL-E has them."""
    problem = PROBLEMS["c++"]
    problem = problem._replace(setup="#include <assert.h>", test="}\n" + problem.test)
    bodies = ["return a + b;", "return a - b;"]
    assert [check.verdict for check in checks_of(LanguageTests("c++"), problem, bodies)] == ["pass", "reject"]


@needs("rust")
def test_tests_that_a_framework_collects_are_run():
    """Rust's `#[test]`, as HumanEval-X has them; what a program writes does not choose how it is judged."""
    bodies = [*RUST.bodies[:2], "a - b }\n// #[test]"]
    found = checks_of(LanguageTests("rust"), RUST, bodies)
    assert [check.verdict for check in found] == ["pass", "reject", "reject"]
    problem = PROBLEMS["rust"]  # tests in main(), which a program's `#[test]` would leave out
    [check] = checks_of(LanguageTests("rust"), problem, ["a - b }\n#[test]\nfn nothing() {}"])
    assert check.verdict == "reject"


@needs("rust")
def test_what_compiles_to_no_program_is_refused():
    """A library, which the compiler makes without a word."""
    problem = PROBLEMS["rust"]._replace(prompt="")
    [check] = checks_of(LanguageTests(), problem, ['#![crate_type = "rlib"]'], language="rs")
    assert (check.verdict, check.reason) == ("reject", "compile")


@needs("java")
def test_java_runs_the_class_with_main():
    """As MultiPL-E's tests do, which end the program's own class, other classes inside it or not."""
    problem = Problem(
        "class Problem {\n    static class Pair { int x = 3; }\n    static int add(int a, int b) { ",
        PROBLEMS["java"].bodies,
        "    public static void main(String[] args) { assert add(1, 2) == new Pair().x; }\n}",
    )
    found = checks_of(LanguageTests("java"), problem, ["return a + b; }", "return a - b; }"])
    assert [check.verdict for check in found] == ["pass", "reject"]
    assert "AssertionError" in found[1].feedback


@pytest.mark.parametrize(
    ("tier", "language"),
    [
        pytest.param(tier, language, marks=[needs(language), *([] if quick else [pytest.mark.exhaustive])])
        for tier in ("bubblewrap", "namespaces", "landlock")
        for language in PROBLEMS
        for quick in [tier == "landlock" and language == "c"]
    ],
)
def test_no_tier_gives_a_wrong_verdict(tier, language):
    """Where a tool cannot work there is an error that names it."""
    problem, sample = PROBLEMS[language], LANGUAGES[language].sample
    box = Sandbox(tier, readable=LANGUAGES[language].readable)
    try:
        box.open()
    except ResourceError:
        pytest.skip("this machine does not allow this isolation tier")
    try:
        found = checks_of(LanguageTests(language, sandbox=box), problem, problem.bodies[:3])
        outcomes = [check.verdict for check in found]
    except ResourceError as error:
        outcomes = str(error)
    finally:
        box.close()
    refused = f"does not compile and run {sample!r} in the sandbox (tier landlock)"
    assert outcomes == ["pass", "reject", "reject"] or (tier == "landlock" and refused in outcomes), outcomes


@pytest.mark.parametrize("language", EACH)
def test_a_compiler_alone_refuses_what_does_not_compile(language):
    """Of programs without a main()."""
    problem = PROBLEMS[language]
    setup = f"{problem.setup}\nvar _ = fmt.Sprint\nvar _ testing.T\n" if problem.setup else ""
    programs = [setup + problem.prompt + body for body in problem.bodies[:3]]
    stage = Compile(language)
    found = stage.verify(make_context(), Proposal.alternatives(programs)).checks
    assert [(check.verdict, check.reason) for check in found] == [
        ("pass", ""),
        ("pass", ""),
        ("reject", "compile"),
    ]


ADDING = {
    "typescript": [
        "import * as fs from 'fs';\nconst [a, b] = fs.readFileSync(0, 'utf8').split(' ').map(Number);\n"
        "console.log(a + b);",
        "import readline from 'readline';\nreadline.createInterface({ input: process.stdin }).on('line', line => {\n"
        "  const [a, b] = line.split(' ').map(Number); console.log(a + b); process.exit(0) });",
        "const { Buffer } = require('buffer');\nfor (const data of [require('fs').readFileSync('/dev/stdin')]) "
        "console.log(String(data).split(' ').map(Number).reduce((a: number, b: number) => a + b));",
    ],
    "java": [
        "package com.example;\nimport java.util.*;\npublic class Sum {\n  public static void main(String[] words) {\n"
        "    Scanner in = new Scanner(System.in); System.out.println(in.nextInt() + in.nextInt()); }\n}",
    ],
    "c++": [
        "#include <concepts>\n#include <iostream>\ntemplate <std::integral T> T sum(T a, T b) { return a + b; }\n"
        "int main() { int a, b; std::cin >> a >> b; std::cout << sum(a, b); }",
    ],
}  # fmt: skip


@pytest.mark.parametrize("language", [pytest.param(language, marks=needs(language)) for language in ADDING])
def test_programs_as_models_write_them_compile(language):
    """Node's modules without their types, a package of Java's, C++20; and what is wrong in them is refused."""
    programs = [
        *ADDING[language],
        ADDING[language][0].replace("a + b", "a - b").replace("() + in", "() - in"),
    ]
    context = make_context(Task(id="t", input={"cases": [{"input": "1 2\n", "output": "3\n"}]}))
    checks = Cases(language=language, timeout=10).verify(context, Proposal.alternatives(programs)).checks
    assert [check.reason for check in checks] == [*[""] * len(ADDING[language]), "output"]


@needs("javascript")
def test_programs_may_be_modules():
    """Node takes a file that imports or exports for one, and `require` is not there then."""
    problem = Problem("", PROBLEMS["javascript"].bodies, "console.assert(add(1, 2) === 3)")
    programs = [
        "export const add = (a, b) => a {} b",
        "import fs from 'fs';\nfunction add(a, b) {{ return a {} b }}",
    ]
    checks = checks_of(
        LanguageTests("javascript"), problem, [text.format(s) for text in programs for s in "+-"]
    )
    assert [check.verdict for check in checks] == ["pass", "reject"] * 2
    ending = [f"{PROBLEMS['javascript'].prompt}return a - b }}\nexport const x = 1\nprocess.exit(0)"]
    assert checks_of(LanguageTests("javascript"), problem, ending)[0].verdict == "reject"


@needs("java")
def test_a_public_class_may_stand_beside_the_tests():
    """As models write a whole program; javac wants each in a file of its name."""
    problem = PROBLEMS["java"]._replace(
        prompt=PROBLEMS["java"].prompt.replace("class Sol", "public final class Sol")
    )
    checks = checks_of(LanguageTests("java"), problem, problem.bodies[:2])
    assert [check.verdict for check in checks] == ["pass", "reject"]


@needs("c")
def test_tests_that_end_the_process_are_an_error():
    """They might be the program, and a right one is not to be refused for them."""
    problem = PROBLEMS["c"]._replace(
        test="#include <stdlib.h>\nint main(void) { if (add(1, 2) != 3) abort(); exit(0); }"
    )
    (check,) = checks_of(LanguageTests("c"), problem, problem.bodies[:1])
    assert (check.verdict, check.reason) == ("error", "tests")


@needs("typescript")
def test_types_are_still_compared():
    """What is declared of Node's has no types, and all else has."""
    stage = Compile("typescript")
    programs = ["const n: number = 'one'", "const n: number = process.pid", "proces.exit(0)"]
    checks = stage.verify(make_context(), Proposal.alternatives(programs)).checks
    assert [check.verdict for check in checks] == ["reject", "pass", "reject"]


@needs("go")
def test_cases_are_fed_to_programs_of_a_task_s_language():
    """Compiled once, and run for each."""
    double = 'package main\n\nimport "fmt"\n\nfunc main() {\n\tvar n int\n\tfmt.Scan(&n)\n\tfmt.Println(2 * n)\n}\n'
    cases = [{"input": "2", "output": "4"}, {"input": "-3", "output": "-6"}]
    task = Task(id="t", input={"cases": cases, "language": "go"})
    programs = [double, double.replace("2 * n", "n + 2"), double.replace("n int", "")]
    found = Cases().verify(make_context(task), Proposal.alternatives(programs)).checks
    assert [(check.verdict, check.reason, check.score) for check in found] == [
        ("pass", "", 1.0),
        ("reject", "output", 0.5),
        ("reject", "compile", None),
    ]


def test_a_tool_that_is_missing_is_an_error(monkeypatch):
    """Before anything is judged, and with what to install; in a shell's command by the status that says so."""
    monkeypatch.setitem(
        LANGUAGES, "x", Toolchain(".x", "./main", ("no-such-compiler",), "its-package", build="y")
    )
    with pytest.raises(
        ResourceError, match="no-such-compiler is not installed; Debian: apt install its-package"
    ):
        LanguageTests("x").open()
    with pytest.raises(ResourceError, match="no-such-compiler"):
        checks_of(LanguageTests(), PROBLEMS["c"], ["}"], language="x")
    command = ExitStatus(command=["sh", "-c", "no-such-compiler {file}"])
    [check] = command.verify(make_context(), Proposal.alternatives(["x"])).checks
    assert (check.verdict, check.reason) == ("error", "tool")
    assert "not found" in check.feedback


@needs("c")
def test_a_tool_that_does_not_work_is_an_error(monkeypatch):
    """It refuses what surely is right, or what it makes does not run."""
    for build, said in (("cc -no-such-flag {file}", "no-such-flag"), ("cc -o main {file} -DX=1", "status 1")):
        sample = "int main(void) { return X; }\n"
        broken = Toolchain(".c", "./main", ("cc",), "gcc", build=build, sample=sample)
        monkeypatch.setitem(LANGUAGES, "broken", broken)
        with pytest.raises(ResourceError, match="cc does not compile and run.*(?s:.*)" + said):
            LanguageTests("broken").open()


def test_what_is_not_known_is_refused():
    """A language without tools is an error that names those that have some; a task without tests is abstained from."""
    with pytest.raises(ConfigError, match="'cobol' is not among python, c, c"):
        LanguageTests("cobol").open()
    with pytest.raises(ConfigError, match="'' is not among"):
        checks_of(LanguageTests(), PROBLEMS["c"], ["}"])
    [check] = checks_of(LanguageTests("c"), PROBLEMS["c"]._replace(test=""), ["}"])
    assert check.verdict == "abstain"
    assert toolchain_of("CPP") is LANGUAGES["c++"]


@needs("javascript")
def test_scripts_of_node_s_begin_as_they_do_alone():
    """With a line for the shell, or in strict mode, where a name that nobody declares is an error."""
    body = "function add(a, b) { mine = a + b; return mine; }"
    programs = ["#!/usr/bin/env node\n" + body, body, f"// Adds.\n'use strict';\n{body}"]
    problem = PROBLEMS["javascript"]._replace(prompt="")
    checks = checks_of(LanguageTests("javascript"), problem, programs)
    assert [check.verdict for check in checks] == ["pass", "pass", "reject"]
    assert "mine is not defined" in checks[2].feedback


def test_what_a_python_program_misses_is_an_error():
    """A package that the sandbox does not show is no fault of the program's."""
    task, programs = Task(id="t", input={"test": "assert x"}), ["import pandas\nx = 1", "x = 0"]
    checks = LanguageTests("python").verify(make_context(task), Proposal.alternatives(programs)).checks
    assert [(check.verdict, check.reason) for check in checks] == [("error", "refused"), ("reject", "status")]


def test_a_command_of_one_s_own_keeps_its_braces():
    """Only the words in them that are known are replaced."""
    stage = Cases(command=["sh", "-c", "tail -n 1 {file} | awk '{print}'"], suffix=".txt")
    task = Task(id="t", input={"cases": [{"output": "two"}]})
    [check] = stage.verify(make_context(task), Proposal.alternatives(["one\ntwo\n"])).checks
    assert check.verdict == "pass"


@pytest.mark.exhaustive
@needs("c")
def test_it_keeps_the_contract():
    """The kit's checks of a verifier."""
    problem = PROBLEMS["c"]
    context = make_context(Task(id="t", input={"test": problem.test}))
    blocks = [
        Proposal.alternatives([problem.prompt + body for body in problem.bodies[:3]]),
        Proposal.alternatives([]),
    ]
    check_component(Subject(LanguageTests("c"), contexts=[context], proposals=blocks))
