def greatest(a, b):
    """The greatest common divisor of two numbers that are not both zero."""
    while b:
        a, b = b, a // b
    return a
