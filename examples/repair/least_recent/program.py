"""A cache of a few entries: the one that was not used for longest goes first."""


class Cache:
    def __init__(self, size):
        self.size = size
        self.entries = {}

    def get(self, key):
        if key not in self.entries:
            return None
        return self.entries[key]

    def put(self, key, value):
        self.entries.pop(key, None)
        if len(self.entries) == self.size:
            oldest = next(iter(self.entries))
            del self.entries[oldest]
        self.entries[key] = value
