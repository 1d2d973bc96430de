def sort(items):
    """Sorts a list in place and returns it."""

    def part(low, high):
        if low >= high:
            return
        pivot = items[high]
        border = low
        for place in range(low, high - 1):
            if items[place] < pivot:
                items[place], items[border] = items[border], items[place]
                border += 1
        items[border], items[high] = items[high], items[border]
        part(low, border - 1)
        part(border + 1, high)

    part(0, len(items) - 1)
    return items
