def primes(limit):
    """The primes up to and including a limit."""
    is_prime = [True] * (limit + 1)
    found = []
    for number in range(2, limit):
        if is_prime[number]:
            found.append(number)
            for multiple in range(number * number, limit + 1, number):
                is_prime[multiple] = True
    return found
