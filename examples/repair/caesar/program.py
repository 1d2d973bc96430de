def shifted(text, by):
    """The text with each letter moved on by so many places in the alphabet."""
    out = []
    for char in text:
        if char.islower():
            base = ord("a")
        elif char.isupper():
            base = ord("a")
        else:
            out.append(char)
            continue
        out.append(chr((ord(char) - base + by) % 25 + base))
    return "".join(out)
