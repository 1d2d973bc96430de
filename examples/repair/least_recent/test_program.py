from program import Cache


def test_put_and_get():
    cache = Cache(2)
    cache.put("a", 1)
    assert cache.get("a") == 1
    assert cache.get("b") is None


def test_oldest_goes():
    cache = Cache(2)
    for key in "abc":
        cache.put(key, key)
    assert cache.get("a") is None
    assert cache.get("c") == "c"


def test_used_stays():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert cache.get("a") == 1
    assert cache.get("b") is None


def test_put_again():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 3)
    cache.put("c", 4)
    assert cache.get("a") == 3
    assert cache.get("b") is None
