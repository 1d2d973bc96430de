def row(number):
    """The row of Pascal's triangle with this number, from 0."""
    current = [1]
    for _ in range(number):
        current = [1] + [current[i] + current[i + 1] for i in range(len(current) - 2)] + [1]
    return current
