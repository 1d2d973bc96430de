LETTERS = [
    (1000, "M"), (500, "D"), (100, "C"), (50, "L"),
    (10, "X"), (5, "V"), (1, "I"),
]


def numeral(number):
    """A number from 1 to 3999 as a Roman numeral."""
    text = ""
    for value, letters in LETTERS:
        while number >= value:
            text += letters
            number -= value
    return text
