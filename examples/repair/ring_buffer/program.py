"""A buffer that keeps the last few values."""


class Ring:
    def __init__(self, size):
        self.size = size
        self.values = [None] * size
        self.start = 0
        self.count = 0

    def push(self, value):
        end = (self.start + self.count) % self.size
        self.values[end] = value
        if self.count == self.size:
            self.start = (self.start + 1) % self.size
        else:
            self.count += 1

    def all(self):
        return [self.values[(self.start + i) % self.size] for i in range(self.size)]
