from program import Ring


def test_empty():
    assert Ring(3).all() == []


def test_part():
    ring = Ring(3)
    ring.push(1)
    ring.push(2)
    assert ring.all() == [1, 2]


def test_full():
    ring = Ring(3)
    for value in range(5):
        ring.push(value)
    assert ring.all() == [2, 3, 4]
