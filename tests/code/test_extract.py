"""Programs taken out of answers: what two real models wrote, what others are known to write, and anything at all."""

from __future__ import annotations

import ast
import gc
import time
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from draftverify_code.generators.extract import extract, fenced, preamble, truncate

ADD = 'from typing import List\n\n\ndef add(xs: List[int]) -> int:\n    """ The sum of xs. """\n'
CLOSE = (
    "from typing import List\n\n\ndef has_close_elements(numbers: List[float], threshold: float) -> bool:\n"
)
CLOSE += '    """ Check if any two numbers are closer to each other than threshold. """\n'
TRUNCATE = (
    'def truncate_number(number: float) -> float:\n    """ Return the decimal part of the number. """\n'
)
PALINDROME = (
    "def is_palindrome(string: str) -> bool:\n"
    '    """ Test if given string is a palindrome """\n    return string == string[::-1]\n\n\n'
    'def make_palindrome(string: str) -> str:\n    """ Find the shortest palindrome. """\n'
)
ZERO = (
    "import math\n\n\ndef poly(xs: list, x: float):\n"
    "    return sum([coeff * math.pow(x, i) for i, coeff in enumerate(xs)])\n\n\n"
    'def find_zero(xs: list):\n    """ Find x such that poly(x) = 0. """\n'
)


def take(answer: str, prompt: str = ADD, entry_point: str = "add") -> str:
    """The program in an answer to a prompt that it continues."""
    return extract(answer, prompt=prompt, entry_point=entry_point, continues=True)


def defined(program: str) -> list[str]:
    """What a program defines or imports at its top level, in order."""
    names: list[str] = []
    for node in ast.parse(program).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [alias.name for alias in node.names]
        else:
            names.append(type(node).__name__)
    return names


def last_body(program: str) -> str:
    """The last statement of the last function."""
    function = [node for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)][-1]
    return ast.unparse(function.body[-1])


# What smollm2-135m-instruct (temperature 0.8) and qwen2.5-coder-1.5b-instruct answered when they were asked to complete
# problems of HumanEval; long ones are cut in their middle, nothing else was changed.


def test_real_prose_after_the_fence_is_left_out_and_the_import_comes_from_the_prompt() -> None:
    """SmolLM2: the fence names the language, a paragraph of praise follows, `List` is used without its import."""
    answer = (
        "```python\ndef has_close_elements(numbers: List[float], threshold: float) -> bool:\n"
        "    return any(num - 1.0 for num in numbers if 1.0 < num <= 5.0 and num <= threshold)\n```\n\n"
        "This function uses a generator expression to check if a given number is less than or equal to the "
        "threshold. If a number is found, it is returned as a boolean value."
    )
    program = take(answer, CLOSE, "has_close_elements")
    assert defined(program) == ["List", "has_close_elements"]
    assert "generator expression" not in program


def test_what_a_case_binds_is_not_looked_for_elsewhere() -> None:
    """A block that happens to use the same names gives nothing to a program that has them from its patterns."""
    program = (
        "def kind(x):\n    match x:\n        case [first, *rest]:\n            return first, rest\n"
        "        case {'a': 1, **more}:\n            return more\n"
    )
    other = "first, rest, more = kind([1])[0], 2, 3\nprint(first)\n"
    answer = f"```python\n{program}```\n\nTry it:\n\n```python\n{other}```\n"
    assert extract(answer, entry_point="kind").strip() == program.strip()


def test_real_second_version_is_the_one_that_counts() -> None:
    """SmolLM2: "This can be optimized": of two whole versions the later is taken."""
    answer = (
        "```python\ndef has_close_elements(numbers: List[float], threshold: float) -> bool:\n"
        "    return all(num < threshold for num in numbers)\n```\n\n"
        "This function uses the built-in `all` function in Python. This can be optimized:\n\n```python\n"
        "def has_close_elements(numbers: List[float], threshold: float) -> bool:\n"
        "    return set(numbers).issubset({threshold})\n```"
    )
    assert last_body(take(answer, CLOSE, "has_close_elements")) == "return set(numbers).issubset({threshold})"


def test_real_syntax_error_is_handed_on_for_the_syntax_stage() -> None:
    """SmolLM2: an unclosed parenthesis in the only block: the block comes back as it was, without the prose."""
    block = (
        "def has_close_elements(numbers: List[float], threshold: float) -> bool:\n"
        "    return len([x, y] <= threshold for x, y in zip(numbers, numbers[threshold:])"
    )
    answer = f"```python\n{block}\n```\n\nThis function takes two parameters: `numbers` (list of floats)."
    assert take(answer, CLOSE, "has_close_elements") == block


def test_real_broken_version_gives_way_to_one_that_parses() -> None:
    """SmolLM2: the first of two versions has a parenthesis too many."""
    answer = (
        "```python\ndef truncate_number(num: float) -> float:\n"
        "    return int(round(num * (10 ** 9 + 1)) + 1))\n```\n\n"
        "You can also use the `math.trunc` function in combination with the `round` function to achieve the same "
        "result:\n\n```python\ndef truncate_number(num: float) -> float:\n"
        "    return round(num * (10 ** 9 + 1)) + 1\n```"
    )
    assert last_body(take(answer, TRUNCATE, "truncate_number")) == "return round(num * (10 ** 9 + 1)) + 1"


def test_real_example_in_a_block_of_its_own_is_no_program() -> None:
    """SmolLM2: a print in a second block."""
    answer = (
        "```python\ndef truncate_number(number: float) -> float:\n    return int(round(number, 10))\n```\n\n"
        "For example:\n```python\nprint(truncate_number(3.5))  # Output: 0.5\n```"
    )
    assert defined(take(answer, TRUNCATE, "truncate_number")) == ["truncate_number"]


def test_real_test_prints_below_the_function_are_left_out() -> None:
    """SmolLM2: prints of invented results in the same block."""
    answer = (
        "```python\ndef is_palindrome(string: str) -> bool:\n    return string == string[::-1]\n\n"
        "def make_palindrome(string: str) -> str:\n"
        '    """ Function to test if given string is a palindrome """\n'
        "    return is_palindrome(make_palindrome(make_palindrome(string)))\n\n\n# Test cases\n"
        "print(f\"is_palindrome({'aabc': 2}) == True, False, True, False\")\n"
        "print(f\"is_palindrome({'cab': 2}) == True, False, True, False\")\n```"
    )
    assert defined(take(answer, PALINDROME, "make_palindrome")) == ["is_palindrome", "make_palindrome"]


def test_real_main_is_defined_and_not_called() -> None:
    """SmolLM2: `main()` at the end would run at import."""
    answer = (
        "```python\ndef is_palindrome(string: str) -> bool:\n    return string == string[::-1]\n\n\n"
        "def make_palindrome(string: str) -> str:\n    return ''.join(reversed(string))[::-1]\n\n\n"
        "def main():\n    print(f\"Test is_palindrome: {is_palindrome(make_palindrome(''))}\")\n\nmain()\n```"
    )
    names = ["is_palindrome", "make_palindrome", "main"]
    assert defined(take(answer, PALINDROME, "make_palindrome")) == names


def test_real_answer_cut_in_the_next_function_keeps_the_whole_one() -> None:
    """SmolLM2, cut at the token limit in the middle of a third function."""
    answer = (
        '```python\ndef poly(xs: list, x: float) -> list:\n    """\n    Evaluates polynomial.\n    """\n'
        "    return sum([x * x for x in xs if x % 2 == 1])\n\n\ndef find_zero(xs: list) -> float:\n"
        '    """\n    Returns only x such that poly(x) = 0.\n    """\n    return find_zero(xs) * (x + 1)\n\n\n'
        "def find_zero_non_zero_single_non_zero(xs: list) -> float:\n"
        '    """\n    Returns the maximum amount of x.\n    """\n    max_even = '
    )
    assert defined(take(answer, ZERO, "find_zero")) == ["poly", "find_zero"]


def test_real_answer_cut_before_the_entry_point() -> None:
    """SmolLM2 never came to the function that was asked for: what it wrote comes back, and defines another."""
    answer = (
        "```python\ndef is_palindrome(s: str) -> bool:\n    max_len = 0\n    for char in s:\n"
        "        while max_len < 1:\n            palind"
    )
    program = take(answer, PALINDROME, "make_palindrome")
    assert defined(program) == ["is_palindrome"]
    assert "palind" in program


def test_real_fence_closed_too_early() -> None:
    """SmolLM2: the second function stands behind the closing fence, and a stray fence ends the answer."""
    answer = (
        "```python\ndef poly(xs: list, x: float):\n"
        "    return sum([coeff * x**i * math.pow(x, i) for i, coeff in enumerate(xs)]) + 0.5\n"
        "    return max(len(x) for i, x in enumerate(xs))\n```\n\n"
        "def find_zero(xs: list) -> int:\n    if len(x) > 1:\n"
        "        return max((x[i] for i, x in enumerate(x)) for j, x in enumerate(x[i:]))\n    return 1\n```"
    )
    program = take(answer, ZERO, "find_zero")
    assert defined(program)[-1] == "find_zero"
    assert "math" in defined(program)
    assert "0.5" in program  # the answer's own poly, after the prompt's


def test_real_whole_function_with_its_docstring() -> None:
    """Qwen2.5-Coder: one block, doctests in the docstring, nothing to repair."""
    block = (
        "from typing import *\nfrom collections import *\n\n"
        "def truncate_number(number: float) -> float:\n"
        '    """ Given a positive floating point number, return its decimal part.\n'
        '    >>> truncate_number(3.5)\n    0.5\n    """\n    return number - int(number)'
    )
    assert take(f"```python\n{block}\n```", TRUNCATE, "truncate_number").strip() == block


def test_real_answer_cut_in_a_comment_of_the_entry_point() -> None:
    """Qwen2.5-Coder at the token limit: what is there parses, and is what the tests shall see."""
    answer = (
        "```python\nimport math\n\n\ndef find_zero(xs: list):\n    if len(xs) % 2 != 0:\n"
        '        raise ValueError("Polynomial must have even number of coefficients.")\n    \n'
        "    # Use the Newton-Raphson method to find the"
    )
    assert defined(take(answer, ZERO, "find_zero")) == ["math", "find_zero"]


def test_real_continuation_is_cut_at_the_next_statement() -> None:
    """Qwen2.5-Coder without chat: the body, then a program of its own."""
    body = "    for i in range(len(numbers)):\n        if i:\n            return True\n    return False\n\n\n"
    assert truncate(body + "if __name__ == '__main__':\n    print(1)", ["\nclass ", "\nif "]) == body[:-1]


@pytest.mark.parametrize(
    "answer",
    [
        "```python\ndef add(xs):\n    return sum(xs)\n```",
        "~~~py\ndef add(xs):\n    return sum(xs)\n~~~",
        "````\ndef add(xs):\n    return sum(xs)\n````",
        "```python\ndef add(xs):\n    return sum(xs)",
        "```def add(xs):\n    return sum(xs)\n```",
        "```python\ndef add(xs):\n    return sum(xs)```",
        "Here: ```python\ndef add(xs):\n    return sum(xs)\n```\nDone.",
        "1. Write it:\n   ```python\n   def add(xs):\n       return sum(xs)\n   ```\n2. Done.",
        "- so\n    ```\n    def add(xs):\n        return sum(xs)\n    ```",
        "```python title='add.py'\ndef add(xs):\n    return sum(xs)\n```",
        "def add(xs):\n    return sum(xs)",
        "Sure! Here you are:\n\ndef add(xs):\n    return sum(xs)\n\nThis adds them. Note\n",
        "    def add(xs):\n        return sum(xs)\n\nas asked.",
        "def add(xs):\n    return sum(xs)\n\nassert add([1]) == 2\nprint(add([1]))\n",
        "def add(xs):\r\n    return sum(xs)\r\n",
        "So:\n> ```python\n> def add(xs):\n>     return sum(xs)\n> ```\n> Done.",
        "> ~~~\n> def add(xs):\n>\n>     return sum(xs)\n> ~~~\n> Done.",
        "<think>\n```python\ndef add(xs): return 0\n```\n</think>\n```python\ndef add(xs):\n    return sum(xs)\n```",
        "Time: O(n)\n\ndef add(xs):\n    return sum(xs)\n\nSpace: O(1)\n",
        "```python\ndef add(xs):\n    return sum(xs)\n```\n<think>Is that all? def add(xs): no</think>",
        "I add them up.</think>def add(xs):\n    return sum(xs)",
        "```python\ndef add(xs: list) -> int:\n    ...\n```\nbecomes\n```python\ndef add(xs):\n    return sum(xs)\n```",
        "```python\ndef add(xs):\n    return sum(xs)\n```\n```python\nassert add([]) == 0\n```\n```text\n0\n```",
        "```python\ndef add(xs):\n    return sum(xs)\n```python\nadd([1])\n```",
        "```python\ndef add(xs):\n    return sum(xs)\n```\nShorter:\n```python\ndef add(xs):\n    return sum(x\n```",
    ],
)
def test_the_function_however_it_is_wrapped(answer: str) -> None:
    """Fences of every kind and none, prose before and after, thoughts, stubs, examples, later attempts that broke."""
    assert ast.unparse(ast.parse(take(answer))) == "def add(xs):\n    return sum(xs)"


@pytest.mark.parametrize(
    "answer",
    [
        "    total = 0\n    for x in xs:\n        total += x\n    return total",
        "    total = 0\n    for x in xs:\n        total += x\n    return total\n\nThis sums them up.",
        "total = 0\n    for x in xs:\n        total += x\n    return total",
        "total = 0\nfor x in xs:\n    total += x\nreturn total",
        "```python\n    total = 0\n    for x in xs:\n        total += x\n    return total\n```",
        "```python\ntotal = 0\nfor x in xs:\n    total += x\nreturn total\n```\nThat is the body.",
    ],
)
def test_a_body_alone_is_joined_to_the_prompt(answer: str) -> None:
    """With its indentation, without that of its first line, or without any."""
    wanted = ADD + "    total = 0\n    for x in xs:\n        total += x\n    return total\n"
    assert ast.unparse(ast.parse(take(answer))) == ast.unparse(ast.parse(wanted))


def test_prose_is_no_body() -> None:
    """Words that happen to parse when they are indented are not taken for a function's body."""
    assert "def add" not in take("Impossible")


def test_a_mistake_in_the_entry_point_is_not_hidden_by_what_parses() -> None:
    """The import and the helper parse, the function does not: the whole block is what the model said."""
    block = "import math\n\ndef half(x):\n    return x / 2\n\ndef add(xs):\n    return (sum(xs)\n"
    assert take(f"```python\n{block}```") == block.rstrip("\n")


def test_helpers_come_from_other_blocks_and_from_the_prompt() -> None:
    """A function that stands in an earlier block, and the prompt's own helper with its import."""
    answer = (
        "```python\ndef twice(x):\n    return 2 * x\n```\nand\n"
        "```python\ndef find_zero(xs):\n    return twice(poly(xs, 1))\n```"
    )
    assert defined(take(answer, ZERO, "find_zero")) == ["math", "poly", "twice", "find_zero"]


def test_what_is_not_missing_is_not_added() -> None:
    """A program that needs nothing of the preamble stays as it is."""
    assert take("def add(xs):\n    return sum(xs)\n") == "def add(xs):\n    return sum(xs)"


def test_a_constant_below_the_function_stays() -> None:
    """What the functions read is kept, what only the example reads is not."""
    program = take(
        "```python\ndef add(xs):\n    i = MOD\n    return i\nMOD = 7\nfor i in [1]:\n    print(i)\n```"
    )
    assert defined(program) == ["add", "Assign"]


SQUARES = """import heapq, sys
squares = []
memo = {}
def fill():
    for n in range(9):
        if not is_square(n):
            squares.append(n * n)
def grow(xs):
    xs.append(3)
def is_square(n):
    memo[n] = n in squares
    return memo[n]
def main():
    print(is_square(int(input())))
def show():
    print(is_square(3), squares)
"""


@pytest.mark.parametrize(
    "end",
    [
        "fill()",
        "grow(squares)",
        "squares.append(is_square(4))",
        "squares.append(show())",
        "squares[:] = [1]",
        "heapq.heapify(squares)",
        "for i in range(3):\n    fill()",
        "while grow(squares):\n    pass",
        "if not squares:\n    fill()",
        "sys.setrecursionlimit(10**6)",
        "is_square.memo = {}",
        "is_square = memo.get",
    ],
)
def test_a_statement_at_the_end_that_the_functions_need_stays(end: str) -> None:
    """A call that fills what they read, through whatever function, a setting of the interpreter, an attribute."""
    assert take(f"```python\n{SQUARES}{end}\n```", "", "is_square").strip() == SQUARES + end


@pytest.mark.parametrize(
    "end",
    [
        "main()",
        "show()",
        "print(1)",
        "assert is_square(4)",
        "sys.exit(main())",
        "doctest.testmod()",
        "n = int(input())",
        "data = sys.stdin.read()",
        "r = is_square(4)\nprint(r)",
        "xs = [1, 2]\nfor x in xs:\n    y = is_square(x)\n    print(y)",
        "for x in [1]:\n    assert squares.index(x) == is_square(x)",
        "try:\n    print(is_square('a'))\nexcept TypeError as e:\n    print(e)",
        "if __name__ == '__main__':\n    fill()\n    main()",
    ],
)
def test_an_example_at_the_end_is_left_out(end: str) -> None:
    """Prints, asserts, what reads input, what calls the entry point through whatever function, a main guard."""
    assert take(f"```python\n{SQUARES}{end}\n```", "", "is_square").strip() == SQUARES.strip()


def test_what_a_function_only_assigns_a_part_of_stays() -> None:
    """`memo[n] = 1` and `global calls` use a name of outside, as a lambda uses a constant below it."""
    program = "def add(n):\n    global calls\n    memo[n] = 1\n    calls = n\nmemo = {}\ncalls = 0"
    assert take(program).strip() == program
    assert take("add = lambda x: x + K\nK = 3\nprint(add(1))").strip() == "add = lambda x: x + K\nK = 3"


def test_a_lambda_can_be_the_entry_point() -> None:
    """A name that is assigned is defined."""
    assert take("Simply\n\nadd = lambda xs: sum(xs)\n").strip() == "add = lambda xs: sum(xs)"


def test_without_an_entry_point_the_program_is_kept_whole() -> None:
    """A program that reads and prints: of several blocks the longest that is Python, its prints included."""
    answer = (
        "Run it:\n```bash\npython3 solve.py --with --many --arguments\n```\n"
        "```python\nn = int(input())\nprint(2 * n)\n```\n```\n8\n```"
    )
    assert extract(answer, prompt="Double a number.") == "n = int(input())\nprint(2 * n)"


FIXED = "```python\ndef f(x):\n    return x + 1\n```\n"


@pytest.mark.parametrize(
    "answer",
    [
        "The bug:\n```python\ndef f(x):\n    return x - 1\n```\nCorrected:\n" + FIXED,
        "Yours:\n```python\ndef f(x):\n    # adds 1\n    return x - 1\n```\nCorrected:\n" + FIXED,
        FIXED
        + "Use it:\n```python\nfrom math import inf\nfor x in [1, 2, inf]:\n    print(f(x), f(-x))\n```\n",
        FIXED + "Only this line changed:\n```python\nx + 1\n```\n",
        "It lacked:\n```python\nx = 1\n```\nso:\n" + FIXED,
    ],
)
def test_without_an_entry_point_the_correction_counts(answer: str) -> None:
    """Not the quoted original, not a usage example, not a snippet."""
    assert extract(answer) == "def f(x):\n    return x + 1"


def test_other_languages_are_taken_by_their_tag() -> None:
    """Nothing is parsed: the block of the language, else one without a tag, else the text."""
    answer = "```bash\nmake and run and so on and on\n```\n```cpp\nint main() { return 0; }\n```"
    assert extract(answer, language="c++") == "int main() { return 0; }"
    assert extract("```\nint f();\n```\n```text\nlonger than that\n```", language="c") == "int f();"
    assert extract("int f();", language="c") == "int f();"
    body = extract(
        "```c\n  return 1;\n}\n```", language="c", prompt="int f() {", entry_point="f", continues=True
    )
    assert body == "int f() {\n  return 1;\n}"


@pytest.mark.parametrize("language", ["c++", "cpp", "CPP"])
def test_any_name_of_the_language_is_its_tag(language: str) -> None:
    """An untagged block of output, longer, does not stand in its way."""
    for tag in ("c++", "cpp", "cc"):
        answer = f"```\n1 2 3 4 5 6 7 8 9 10 11 12\n```\n```{tag}\nint f() {{}}\n```\n```\n1\n```"
        assert extract(answer, language=language) == "int f() {}"
    for name, tag in (("ts", "typescript"), ("golang", "go"), ("csharp", "cs"), ("py", "python")):
        assert extract(f"```\n{'out' * 9}\n```\n```{tag}\nf = 1\n```", language=name) == "f = 1"


@pytest.mark.parametrize(
    ("language", "program", "usage"),
    [
        ("c++", "int solve(int n) { return n; }", "int main() { return solve(3); }"),
        ("c", "static int *solve(int (*f)(int))\n{ }", "int solve(int);\nint main() { if (solve(3)) { } }"),
        ("go", "func (s *S) solve(n int) (int, error) { }", "func main() {\n if solve(3) > 2 { } }"),
        ("rust", "fn solve<T: Ord>(n: &[T]) -> T { }", "fn main() {\n match solve(3) { _ => {} } }"),
        ("java", "List<Long> solve(int[] n) throws E { }", "class T { void t() { new S().solve(3); } }"),
        ("js", "exports.solve = async (n) => n", "const solve = require('./solve');\nlog(solve(3), x => x)"),
        ("ts", "class A {\n  solve(n: number): number { } }", "solve(3).then(x => { log(x) })"),
        ("c#", "int solve(int n) => n + 1;", "Console.WriteLine(solve(3));"),
        ("ruby", "def solve(n)\n  n\nend", "puts solve(3)"),
    ],
)
def test_the_block_that_defines_the_name_goes_before_its_usage(
    language: str, program: str, usage: str
) -> None:
    """In whatever order the two stand; where none defines it, the first that mentions it."""
    blocks = [f"```{language}\n{each}\n```" for each in (program, usage)]
    assert extract("\n".join(blocks), entry_point="solve", language=language) == program
    assert extract("\n".join(blocks[::-1]), entry_point="solve", language=language) == program
    assert (
        extract("```\na(solve)\n```\n```\nlonger(solve)\n```", entry_point="solve", language="c")
        == "a(solve)"
    )


def test_the_preamble_ends_above_the_entry_point() -> None:
    """Decorators belong to the function; without the entry point there is none."""
    assert preamble("import math\n@cache\ndef f(x):\n    ...\n", "f") == "import math\n"
    assert preamble("import math\ndef g(x):\n    ...\n", "f") == ""


def test_blocks_with_their_tags() -> None:
    """Tags, an early second opening, and backticks inside a line that are no fence."""
    text = "a ``` b and c\n```py\nx\n```python\ny\n```\n~~~\nz\n"
    assert list(fenced(text)) == [("py", "x"), ("python", "y"), ("", "z\n")]


STUCK = [
    "<think>", "<thinking>", "<think>a</thinking>", "a ```" + 290 * " " + "`\n", 290 * "~" + "`\n", "@cache\n",
    "x = (\n", "x = '''\n", "```python\n", "def add(\n", "if x:\n", "not ", "(", "x = 1\n", "```\nx\n```\n", "> ",
    "```\n> x\n", "````\n```\n~~~\n", "```x``` ", "def add(xs):\n    return 1\n@d\ndef add(:\n",
    "def add(xs): return add(1)\ny = add(1)\n", "    y = (1\n", "else:\n", "add(x <",
]  # fmt: skip
"""What a model writes again and again when it is stuck."""
LONG = {each: partial(lambda text, size: text * (size // len(text)), each) for each in STUCK}
LONG["one line"] = lambda size: f"x: {'y ' * (size // 2)}\nz"
LONG["blanks"] = lambda size: f"x:{' ' * size}\nz"
LONG["a chain of blocks"] = lambda size: (
    "".join(f"```\ndef f{i}(x):\n    return f{i + 1}(x)\n```\n" for i in range(size // 40))
    + "```\ndef add(xs):\n    return f0(xs)\n```\n"
)


def seconds(text: str) -> float:
    """Of processor time that one reading takes."""
    gc.disable()  # what else the process holds is not the text's
    try:
        began = time.process_time()
        assert isinstance(take(text), str)
        assert isinstance(extract(text, language="c", entry_point="add"), str)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize("name", LONG)
def test_time_grows_with_the_length_of_an_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with its square: ten times as long a text takes some ten times as long, and is parsed no more often."""
    text, parse, sizes = LONG[name](30_000), ast.parse, [0]
    spent = min(seconds(text) for _ in range(2))
    assert spent < max(
        0.25, 50 * seconds(LONG[name](3_000))
    )  # of what grows with its square it would be 100 times
    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", lambda each: sizes.append(len(each)) or parse(each))
        take(text[:10_000])
    assert sum(sizes) <= 22 * 10_000


LINES = st.lists(
    st.sampled_from(
        [
            "```python", "```", "~~~", "def add(xs):", "    return sum(xs)", "  x = (", "import math", "Here it is:",
            "", "<think>", "</think>", "    ```", "@d", '    """', "else:", "\tif x:", "print(add([1]))", "``` x", "x",
        ]
    ),
    max_size=12,
)  # fmt: skip


@given(LINES.map("\n".join) | st.text(max_size=80))
@example("\x00")
@example("```")
@example("(" * 500)
@example("-" * 50_000)
@example("```\ud800\n")
def test_any_text_gives_a_text(answer: str) -> None:
    """Nothing that a model writes raises, with or without an entry point, in any language."""
    assert isinstance(take(answer), str)
    assert isinstance(extract(answer), str)
    assert isinstance(extract(answer, language="c", prompt="p", entry_point="f", continues=True), str)


PROSE = st.lists(
    st.sampled_from(["Sure, here it is.", "", "It works like this:", "- first, we loop", "Time: O(n)."]),
    max_size=4,
).map("\n".join)
BODIES = st.lists(
    st.sampled_from(
        ["    y = 1", "    if xs:\n        y = 2", "    for x in xs:\n        y = x", "    # so"]
    ),
    max_size=5,
).map(lambda lines: "\n".join([*lines, "    return y"]))


@given(PROSE, BODIES, PROSE, st.sampled_from(["```python", "```", "~~~python", "````py"]), st.booleans())
def test_a_fenced_program_comes_back_exactly(
    before: str, body: str, after: str, fence: str, closed: bool
) -> None:
    """Law: prose around a fenced function is not seen; a fence that ends the answer may be missing."""
    program = f"def add(xs):\n{body}"
    end = f"\n{fence.rstrip('pyhton')}\n{after}" if closed else ""
    assert take(f"{before}\n{fence}\n{program}{end}") == program


@given(PROSE, BODIES)
def test_a_bare_body_means_what_it_means_under_the_prompt(after: str, body: str) -> None:
    """Law: a continuation is the prompt and the body, and prose after it is dropped."""
    wanted = ast.dump(ast.parse(ADD + body))
    assert ast.dump(ast.parse(take(f"{body}\n\n{after}"))) == wanted
