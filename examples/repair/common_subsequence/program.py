def longest(one, other):
    """The length of the longest common subsequence of two texts."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            if one[i - 1] == other[j - 1]:
                table[i][j] = table[i - 1][j - 1] + 1
            else:
                table[i][j] = min(table[i - 1][j], table[i][j - 1])
    return table[len(one)][len(other)]
