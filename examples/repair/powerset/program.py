def subsets(items):
    """All subsets of some items, each in the items' order."""
    found = []
    chosen = []

    def choose(place):
        if place == len(items):
            found.append(chosen)
            return
        choose(place + 1)
        chosen.append(items[place])
        choose(place + 1)
        chosen.pop()

    choose(0)
    return found
