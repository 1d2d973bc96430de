"""Honest programs: exceptions of every kind, and tests that look at them."""


# %% a hierarchy of one's own
class AppError(Exception):
    """All of this program."""


class NotFound(AppError, LookupError):
    def __init__(self, key, known=()):
        super().__init__(f"{key!r} is not one of {sorted(known)}")
        self.key = key
        self.known = known


class Denied(AppError):
    code = 403


def find(key, table):
    if key.startswith("_"):
        raise Denied(key)
    try:
        return table[key]
    except KeyError:
        raise NotFound(key, tuple(table)) from None


# tests
assert find("a", {"a": 1}) == 1
try:
    find("b", {"a": 1})
except NotFound as error:
    assert error.key == "b" and error.known == ("a",)
    assert str(error) == "'b' is not one of ['a']"
    assert isinstance(error, AppError) and isinstance(error, LookupError)
    assert error.__cause__ is None and error.__suppress_context__
else:
    assert False
try:
    find("_x", {})
except AppError as error:
    assert type(error) is Denied and error.code == 403 and error.args == ("_x",)
else:
    assert False
# wrong: self.key = key => self.key = known
# wrong: from None => from KeyError(key)
# wrong: code = 403 => code = 404


# %% own exceptions, caught by their base
class Bad(ValueError):
    pass


def check(x):
    if x < 0:
        raise Bad("negative", x)
    return x


# tests: asserts
assert check(1) == 1


def raised(x):
    try:
        check(x)
    except ValueError as error:
        return type(error).__name__, error.args
    return None


assert raised(-2) == ("Bad", ("negative", -2))
assert raised(2) is None
# wrong: class Bad(ValueError) => class Bad(TypeError)
# wrong: raise Bad("negative", x) => raise ValueError("negative", x)


# %% a custom text and representation
class HttpError(Exception):
    def __init__(self, status, reason="", *, retry=False):
        self.status, self.reason, self.retry = status, reason, retry

    def __str__(self):
        return f"HTTP {self.status} {self.reason}".strip()

    def __repr__(self):
        return f"<{self.status}>"

    @property
    def fatal(self):
        return self.status >= 500 and not self.retry


def request(path):
    if path == "/down":
        raise HttpError(503, "Unavailable", retry=True)
    if path == "/gone":
        raise HttpError(410)
    return "ok"


# tests
try:
    request("/down")
except HttpError as e:
    assert str(e) == "HTTP 503 Unavailable" and e.retry and not e.fatal
    assert repr(e) == "<503>" and e.args == (503, "Unavailable")
else:
    assert False
try:
    request("/gone")
except Exception as e:
    assert str(e) == "HTTP 410"
else:
    assert False
assert request("/") == "ok"
# wrong: retry=True => retry=False
# wrong: self.reason}".strip() => self.reason}"


# %% causes and contexts
def parse(text):
    try:
        return int(text)
    except ValueError as error:
        raise RuntimeError(f"cannot read {text!r}") from error


def nested(text):
    try:
        return parse(text)
    except RuntimeError:
        raise KeyError("outer")


# tests
try:
    parse("x")
except RuntimeError as error:
    assert isinstance(error.__cause__, ValueError)
    assert "invalid literal" in str(error.__cause__)
else:
    assert False
try:
    nested("x")
except KeyError as error:
    assert error.__cause__ is None
    assert isinstance(error.__context__, RuntimeError)
    assert isinstance(error.__context__.__cause__, ValueError)
else:
    assert False
# wrong: from error => from None


# %% notes
def load(rows):
    for number, row in enumerate(rows):
        try:
            int(row)
        except ValueError as error:
            error.add_note(f"row {number}")
            raise
    return len(rows)


# tests
assert load(["1", "2"]) == 2
try:
    load(["1", "x"])
except ValueError as error:
    assert error.__notes__ == ["row 1"]
else:
    assert False
# wrong: f"row {number}" => f"row {row}"


# %% exception groups
def validate(form):
    errors = []
    if not form.get("name"):
        errors.append(KeyError("name"))
    if form.get("age", 0) < 0:
        errors.append(ValueError("age"))
    if errors:
        raise ExceptionGroup("invalid form", errors)
    return form


# tests
assert validate({"name": "x"}) == {"name": "x"}
try:
    validate({"age": -1})
except ExceptionGroup as group:
    assert group.message == "invalid form" and len(group.exceptions) == 2
    values, rest = group.split(ValueError)
    assert [e.args for e in values.exceptions] == [("age",)]
    assert isinstance(rest.exceptions[0], KeyError)
else:
    assert False
# wrong: errors.append(ValueError("age")) => errors.insert(0, TypeError("age"))

# %% JSON, regular expressions and literals
import ast
import json
import re


def read(kind, text):
    if kind == "json":
        return json.loads(text)
    if kind == "re":
        return re.compile(text).groups
    return ast.literal_eval(text)


# tests
import json
import re

assert read("json", "[1]") == [1] and read("re", "(a)(b)") == 2 and read("py", "{1: 2}") == {1: 2}
try:
    read("json", '{"a": }')
except json.JSONDecodeError as error:
    assert error.msg == "Expecting value" and error.pos == 6 and error.lineno == 1
    assert isinstance(error, ValueError)
else:
    assert False
try:
    read("re", "(a")
except re.error as error:
    assert error.pattern == "(a" and error.pos == 0 and "unterminated" in error.msg
else:
    assert False
for text in ("f(x)", "1 +"):
    try:
        read("py", text)
    except (ValueError, SyntaxError) as error:
        assert type(error) is (SyntaxError if text == "1 +" else ValueError)
    else:
        assert False
# wrong: re.compile(text).groups => re.compile(re.escape(text)).groups

# %% operating system errors
import errno
import os


def size(path):
    return os.stat(path).st_size


def refuse(code):
    raise OSError(code, os.strerror(code), "/some/file")


# tests
import errno

try:
    size("/no/such/file")
except FileNotFoundError as error:
    assert error.errno == errno.ENOENT and error.filename == "/no/such/file"
    assert error.strerror == "No such file or directory"
else:
    assert False
try:
    refuse(errno.EACCES)
except PermissionError as error:
    assert error.errno == 13 and error.args == (13, "Permission denied")
    assert str(error) == "[Errno 13] Permission denied: '/some/file'"
else:
    assert False
try:
    refuse(errno.EEXIST)
except OSError as error:
    assert type(error) is FileExistsError
else:
    assert False
# wrong: os.strerror(code), "/some/file" => os.strerror(code)


# %% unicode errors
def decode(data, encoding="utf-8"):
    return data.decode(encoding)


def encode(text):
    return text.encode("ascii")


# tests
assert decode(b"\xc3\xa4") == "ä"
try:
    decode(b"ab\xff")
except UnicodeDecodeError as error:
    assert (error.encoding, error.object, error.start, error.end) == ("utf-8", b"ab\xff", 2, 3)
    assert error.reason == "invalid start byte"
else:
    assert False
try:
    encode("aé")
except UnicodeEncodeError as error:
    assert error.start == 1 and error.object == "aé"
else:
    assert False
# wrong: data.decode(encoding) => data.decode(encoding, errors="replace")

# %% subprocess errors
import subprocess
import sys


def run(code):
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


# tests
import subprocess

assert run("print(1 + 1)") == "2\n"
try:
    run("import sys; sys.exit('no')")
except subprocess.CalledProcessError as error:
    assert error.returncode == 1 and error.stderr == "no\n"
else:
    assert False
# wrong: check=True => check=False


# %% the standard ones, by name
def trouble(kind):
    return {
        "zero": lambda: 1 / 0,
        "key": lambda: {}["k"],
        "index": lambda: [][3],
        "attribute": lambda: (3).real_part,
        "type": lambda: "a" + 1,
        "value": lambda: int("z"),
        "name": lambda: undefined_name,
        "overflow": lambda: 2.0**10000,
        "stop": lambda: next(iter(())),
        "import": lambda: __import__("no_such_module"),
        "unicode": lambda: b"\xff".decode(),
        "assertion": lambda: (_ for _ in ()).throw(AssertionError("mine")),
        "not": lambda: (_ for _ in ()).throw(NotImplementedError),
    }[kind]()


# tests
expected = {
    "zero": (ZeroDivisionError, "division by zero"),
    "key": (KeyError, "'k'"),
    "index": (IndexError, "list index out of range"),
    "attribute": (AttributeError, "'int' object has no attribute 'real_part'"),
    "type": (TypeError, 'can only concatenate str (not "int") to str'),
    "value": (ValueError, "invalid literal for int() with base 10: 'z'"),
    "name": (NameError, "name 'undefined_name' is not defined"),
    "stop": (StopIteration, ""),
    "import": (ModuleNotFoundError, "No module named 'no_such_module'"),
    "assertion": (AssertionError, "mine"),
    "not": (NotImplementedError, ""),
}
for kind, (cls, text) in expected.items():
    try:
        trouble(kind)
    except Exception as error:
        assert type(error) is cls, (kind, error)
        assert str(error) == text, (kind, str(error))
    else:
        assert False, kind
try:
    trouble("attribute")
except AttributeError as error:
    assert error.name == "real_part" and error.obj == 3
try:
    trouble("import")
except ImportError as error:
    assert error.name == "no_such_module"
try:
    trouble("overflow")
except OverflowError as error:
    assert error.args[0] == 34
# wrong: [][3] => ()[3]


# %% arguments of exceptions that are containers
def gather(items):
    bad = [item for item in items if not isinstance(item, int)]
    if bad:
        raise TypeError("not integers", bad, {"count": len(bad)})
    return sum(items)


# tests: asserts
assert gather([1, 2]) == 3
try:
    gather([1, "a", None])
except TypeError as error:
    caught = error
assert caught.args == ("not integers", ["a", None], {"count": 2})
assert caught.__traceback__ is not None
assert caught.args[1][0].upper() == "A"
# wrong: {"count": len(bad)} => {"count": len(items)}


# %% the program's exception raised by the test's callback
class Stop(Exception):
    def __init__(self, value):
        self.value = value


def search(tree, visit):
    try:
        for node in tree:
            visit(node)
    except Stop as stop:
        return stop.value
    return None


# tests
def visit(node):
    if node > 2:
        raise Stop(node * 10)


assert search([1, 2, 3, 4], visit) == 30
assert search([1], visit) is None
# wrong: return stop.value => return None


# %% exceptions as values
def attempt(f, *args):
    try:
        return f(*args), None
    except Exception as error:
        return None, error


# tests
value, error = attempt(int, "12")
assert value == 12 and error is None
value, error = attempt(int, "x")
assert value is None and isinstance(error, ValueError)
assert "invalid literal" in str(error)
assert attempt(lambda: {}["a"])[1].args == ("a",)
assert repr(attempt(lambda: [][0])[1]) == "IndexError('list index out of range')"
# wrong: return None, error => return None, str(error)

# %% system exit and cleanup order
import sys

order = []


def leave(code):
    try:
        order.append("try")
        sys.exit(code)
    finally:
        order.append("finally")


def swallowed():
    try:
        return "try"
    finally:
        order.append("late")


# tests
try:
    leave(3)
except SystemExit as error:
    assert error.code == 3
else:
    assert False
assert order == ["try", "finally"]
assert swallowed() == "try" and order[-1] == "late"
# wrong: sys.exit(code) => sys.exit(str(code))


# %% assertion errors of the program itself
def transfer(a, b, amount):
    assert amount > 0, "amount must be positive"
    assert a.get("x", 0) >= amount, f"only {a.get('x', 0)} left"
    a["x"] -= amount
    b["x"] = b.get("x", 0) + amount


# tests
a, b = {"x": 5}, {}
transfer(a, b, 2)
assert (a, b) == ({"x": 3}, {"x": 2})
try:
    transfer(a, b, 10)
except AssertionError as error:
    assert str(error) == "only 3 left"
else:
    raise RuntimeError("it was not refused")
assert (a, b) == ({"x": 3}, {"x": 2})
# wrong: >= amount => >= 0

# %% warnings raised and caught
import warnings


class Old(UserWarning):
    pass


def legacy(x):
    warnings.warn("use modern()", DeprecationWarning, stacklevel=2)
    if x > 1:
        warnings.warn(Old("really"))
    return x


# tests
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert legacy(2) == 2
assert [w.category.__name__ for w in caught] == ["DeprecationWarning", "Old"]
assert str(caught[0].message) == "use modern()"
with warnings.catch_warnings():
    warnings.simplefilter("error", DeprecationWarning)
    try:
        legacy(1)
    except DeprecationWarning:
        pass
    else:
        assert False
# wrong: if x > 1 => if x > 2

# %% an exit stack
from contextlib import ExitStack, suppress


def close_all(closers):
    with ExitStack() as stack:
        for closer in closers:
            stack.callback(closer)
    return len(closers)


def remove(d, key):
    with suppress(KeyError):
        del d[key]
    return d


# tests
order = []
assert close_all([lambda: order.append(1), lambda: order.append(2)]) == 2
assert order == [2, 1]


def fail():
    raise ValueError("closing failed")


try:
    close_all([lambda: order.append(3), fail])
except ValueError as error:
    assert str(error) == "closing failed"
else:
    assert False
assert order == [2, 1, 3]
assert remove({"a": 1}, "b") == {"a": 1} and remove({"a": 1}, "a") == {}
# wrong: for closer in closers => for closer in reversed(closers)
