def best_value(items, capacity):
    """The most value that fits, of (weight, value) items that can be taken once each."""
    best = [0] * (capacity + 1)
    for weight, value in items:
        for room in range(weight, capacity + 1):
            best[room] = max(best[room], best[room - weight] + value)
    return best[capacity]
