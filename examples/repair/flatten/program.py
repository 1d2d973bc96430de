def flat(items):
    """The items of nested lists, in order, in one list."""
    found = []
    for item in items:
        if isinstance(item, list):
            found.append(flat(item))
        else:
            found.append(item)
    return found
