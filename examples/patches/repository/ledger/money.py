"""Sums of money, in cents."""


def parse(text):
    """Cents of a text such as "12.30"."""
    whole, _, cents = text.partition(".")
    return int(whole) * 100 + int((cents + "00")[:2])


def show(cents):
    """The text of a sum."""
    return f"{cents // 100}.{cents % 100:02d}"


def split(cents, parts):
    """A sum in equal parts; what is left over goes to the first ones, a cent each."""
    if parts < 1:
        raise ValueError("at least one part is needed")
    share = cents // parts
    return [share] * parts
