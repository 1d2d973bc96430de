DIGITS = "0123456789abcdef"


def in_base(number, base):
    """A number that is not negative, written in a base from 2 to 16."""
    if number == 0:
        return "0"
    text = ""
    while number > 0:
        text = text + DIGITS[number % base]
        number //= base
    return text
