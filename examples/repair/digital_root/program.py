def root(number):
    """The sum of a number's digits, of that sum's digits, and so on until one digit is left."""
    while number >= 9:
        total = 0
        for digit in str(number):
            total += int(digit)
        number = total
    return number
