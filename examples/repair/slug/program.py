"""Titles as the end of an address."""


def slug(title):
    words = []
    word = ""
    for char in title:
        if char.isalnum():
            word += char
        elif word:
            words.append(word)
            word = ""
    if word:
        words.append(word)
    return "".join(words)
