def kth(items, k):
    """The k-th smallest item, from 1, by choosing a pivot."""
    pivot = items[0]
    below = [item for item in items if item < pivot]
    above = [item for item in items if item > pivot]
    equal = len(items) - len(below) - len(above)
    if k < len(below):
        return kth(below, k)
    if k <= len(below) + equal:
        return pivot
    return kth(above, k - len(below) - equal)
