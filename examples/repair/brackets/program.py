PAIRS = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    """Whether every bracket is closed by its own kind, in the right order."""
    open_ones = []
    for char in text:
        if char in PAIRS.values():
            open_ones.append(char)
        elif char in PAIRS:
            if open_ones and open_ones.pop() != PAIRS[char]:
                return False
    return not open_ones
