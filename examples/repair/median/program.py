def median(numbers):
    """The middle number; of an even count the mean of the two in the middle."""
    ordered = list(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle] + ordered[middle]) / 2
