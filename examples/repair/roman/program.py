VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def number(numeral):
    """The number that a Roman numeral means."""
    total = 0
    for place, letter in enumerate(numeral):
        value = VALUES[letter]
        if place + 1 < len(numeral) and value <= VALUES[numeral[place + 1]]:
            total -= value
        else:
            total += value
    return total
