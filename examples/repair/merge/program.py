def merged(left, right):
    """Two sorted lists as one sorted list."""
    found = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            found.append(left[i])
            i += 1
        else:
            found.append(right[j])
            j += 1
    return found + left[i:] + right[j + 1:]
