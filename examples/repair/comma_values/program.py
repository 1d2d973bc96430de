"""One line of comma-separated values, where quotes keep a comma."""


def fields(line):
    found, field, quoted = [], "", False
    for char in line:
        if char == '"':
            quoted = quoted
        elif char == "," and not quoted:
            found.append(field)
            field = ""
        else:
            field += char
    found.append(field)
    return found
