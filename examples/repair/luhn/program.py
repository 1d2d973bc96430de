def valid(number):
    """Whether a number's last digit is the Luhn check digit of the others."""
    total = 0
    for place, char in enumerate(number):
        digit = int(char)
        if place % 2 == 1:
            digit *= 2
            if digit > 10:
                digit -= 9
        total += digit
    return total % 10 == 0
