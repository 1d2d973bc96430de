def rotated(grid):
    """A grid of rows, turned by a quarter to the right."""
    rows, columns = len(grid), len(grid[0])
    return [[grid[row][column] for row in range(rows)] for column in range(columns)]
