"""Honest programs: NumPy arrays, scalars and what is done to them in place."""

# %% arrays in and out
import numpy as np


def normalise(a):
    a = np.asarray(a, dtype=float)
    return (a - a.mean()) / a.std()


def top(a, k):
    return np.argsort(a)[::-1][:k]


# tests
import numpy as np

assert np.allclose(normalise([1, 2, 3]), [-1.2247449, 0, 1.2247449])
assert (top(np.array([5, 1, 9]), 2) == np.array([2, 0])).all()
assert normalise(np.arange(4)).shape == (4,)
assert normalise([1, 2]).dtype == np.float64
np.testing.assert_array_equal(top([3, 4], 1), [1])
# wrong: / a.std() => / a.var()
# wrong: [::-1][:k] => [:k]

# %% scalars
import numpy as np


def mean(xs):
    return np.mean(xs)


def count(xs):
    return np.int64(len(xs))


def any_nan(xs):
    return np.isnan(xs).any()


# tests: asserts
assert mean([1, 2]) == 1.5
assert count("abc") == 3
import numpy as np

assert isinstance(mean([1, 2]), np.floating) and count("a").dtype == np.int64
assert any_nan([1.0, np.nan]) == True
assert not any_nan([1.0])
assert any_nan([np.nan]) is np.True_
assert round(float(mean([1, 2, 2])), 2) == 1.67
assert np.isnan(mean([np.nan, 1]))
# wrong: np.int64(len(xs)) => np.int32(len(xs))

# %% an array changed in place
import numpy as np


def clip(a, low, high):
    np.clip(a, low, high, out=a)
    return a


def zero_diagonal(a):
    np.fill_diagonal(a, 0)


# tests
import numpy as np

a = np.array([1, 5, 9])
assert clip(a, 2, 6) is a
assert a.tolist() == [2, 5, 6]
m = np.ones((2, 2), dtype=int)
row = m[0]
assert zero_diagonal(m) is None
assert row.tolist() == [0, 1] and m.sum() == 2
# wrong: out=a) => out=a.copy())
# wrong: np.fill_diagonal(a, 0) => a = a - np.eye(2)

# %% views and base arrays
import numpy as np


def half(a):
    return a[: len(a) // 2]


def table(n):
    return np.arange(n * n).reshape(n, n)


# tests
import numpy as np

a = np.arange(6)
h = half(a)
h[0] = 100
assert a[0] == 100 and np.shares_memory(a, h) and h.base is a
t = table(2)
assert t.T.tolist() == [[0, 2], [1, 3]] and t.flags.c_contiguous
assert t.shape == (2, 2) and t[1, 0] == 2
# wrong: a[: len(a) // 2] => a[: len(a) // 2].copy()

# %% structured arrays and records
import numpy as np


def people():
    return np.array([("Ann", 30), ("Bob", 25)], dtype=[("name", "U10"), ("age", "i4")])


def youngest(rows):
    return rows[np.argmin(rows["age"])]["name"]


# tests
import numpy as np

p = people()
assert youngest(p) == "Bob" and p["age"].sum() == 55
assert p.dtype.names == ("name", "age")
p["age"][1] = 99
assert youngest(p) == "Ann"
assert p[0].tolist() == ("Ann", 30)
# wrong: np.argmin => np.argmax

# %% shapes, types and errors
import numpy as np


def solve(a, b):
    return np.linalg.solve(np.array(a, float), np.array(b, float))


def stack(*rows):
    return np.vstack(rows).astype(np.uint8)


# tests
import numpy as np

assert np.allclose(solve([[2, 0], [0, 4]], [2, 4]), [1, 1])
assert stack([1, 2], [3, 300]).dtype == np.uint8
assert stack([1], [2]).shape == (2, 1)
try:
    solve([[1, 1], [1, 1]], [1, 2])
except np.linalg.LinAlgError as error:
    assert "Singular" in str(error)
else:
    assert False
try:
    solve([[1, 2]], [1])
except ValueError:
    pass
# wrong: np.uint8 => np.int8

# %% random generators
import numpy as np


def noise(n, seed):
    return np.random.default_rng(seed).normal(size=n)


def legacy(n):
    return np.random.rand(n)


# tests
import numpy as np

assert (noise(3, 1) == noise(3, 1)).all() and (noise(3, 1) != noise(3, 2)).any()
np.random.seed(5)
a = legacy(3)
np.random.seed(5)
assert np.array_equal(legacy(3), a)
np.random.seed(5)
assert np.array_equal(np.random.rand(3), a)
# wrong: np.random.rand(n) => np.random.rand(n) + np.random.default_rng().random(n)

# %% equality and nan in arrays
import numpy as np


def fill(shape):
    return np.full(shape, np.nan)


def mixed():
    return {"a": np.array([1, 2]), "b": [np.float32(0.5)]}


# tests
import numpy as np

assert np.array_equal(fill(2), [np.nan, np.nan], equal_nan=True)
assert not (fill(2) == fill(2)).any()
m = mixed()
assert m["a"].sum() == 3 and m["b"] == [0.5] and type(m["b"][0]) is np.float32
try:
    bool(mixed() == mixed())
except ValueError as error:
    assert "ambiguous" in str(error)
else:
    assert False
# wrong: np.full(shape, np.nan) => np.zeros(shape)


# %% arrays that may not be written to, and how errors are told
import numpy as np


def constant(n):
    a = np.arange(n)
    a.flags.writeable = False
    return a


def log(xs):
    return np.log(np.array(xs, float))


# tests
import numpy as np

try:
    constant(3)[0] = 5
except ValueError:
    pass
else:
    assert False
with np.errstate(divide="raise"):
    try:
        log([0])
    except FloatingPointError:
        pass
    else:
        assert False
assert np.allclose(log([1, np.e]), [0, 1])
# wrong: writeable = False => writeable = True
