def united(intervals):
    """Closed intervals, those that touch or overlap made one, in order."""
    found = []
    for start, end in sorted(intervals):
        if found and start < found[-1][1]:
            found[-1][1] = end
        else:
            found.append([start, end])
    return found
