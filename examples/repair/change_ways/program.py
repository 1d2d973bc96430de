def ways(amount, coins):
    """In how many ways coins make an amount, each coin used as often as one likes, order not counted."""
    table = [0] + [0] * amount
    for coin in coins:
        for total in range(coin, amount + 1):
            table[total] += table[total - coin]
    return table[amount]
