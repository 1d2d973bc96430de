def following(row):
    """The next row of look-and-say: each run of a digit as its length and the digit."""
    said = ""
    place = 0
    while place < len(row):
        end = place
        while end < len(row) and row[end] == row[place]:
            end += 1
        said += str(end - place + 1) + row[place]
        place = end
    return said
