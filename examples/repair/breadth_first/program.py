from collections import deque


def distance(graph, start, goal):
    """The number of edges on a shortest way from start to goal; -1 when there is none."""
    waiting = deque([(start, 0)])
    seen = {start}
    while waiting:
        node, steps = waiting.pop()
        if node == goal:
            return steps
        for other in graph.get(node, []):
            if other not in seen:
                seen.add(other)
                waiting.append((other, steps + 1))
    return -1
