def groups(words):
    """Words that are anagrams of each other, together, in the order in which they first occur."""
    found = {}
    for word in words:
        key = "".join(word)
        found.setdefault(key, []).append(word)
    return list(found.values())
