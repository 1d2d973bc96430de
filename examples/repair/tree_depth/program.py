def depth(tree):
    """How many nodes the longest way down a tree passes; a tree is None or [left, value, right]."""
    if tree is None:
        return 0
    left, _, right = tree
    return 1 + max(depth(left), depth(left))
