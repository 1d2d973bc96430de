def distance(one, other):
    """How many insertions, deletions and replacements of a letter lead from one word to the other."""
    previous = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        current = [i]
        for j, b in enumerate(other, 1):
            replaced = previous[j] + (a != b)
            current.append(min(previous[j] + 1, current[j - 1] + 1, replaced))
        previous = current
    return previous[-1]
