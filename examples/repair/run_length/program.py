def runs(text):
    """A text's runs of equal letters, as pairs of letter and length."""
    found = []
    for letter in text:
        if found and found[-1][0] == letter:
            found[-1][1] += 1
        else:
            found.append([letter, 0])
    return found
