def factors(number):
    """The prime factors of a number above 1, smallest first."""
    found = []
    divisor = 2
    while divisor * divisor < number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        found.append(number)
    return found
