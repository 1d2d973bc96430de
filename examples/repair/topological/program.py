def ordered(after):
    """Tasks in an order in which each comes after those it needs; `after` says what each needs. [] for a circle."""
    missing = {task: len(needs) for task, needs in after.items()}
    ready = sorted(task for task, count in missing.items() if count == 0)
    done = []
    while ready:
        task = ready.pop(0)
        done.append(task)
        for other, needs in sorted(after.items()):
            if task in needs:
                missing[other] -= 1
                if missing[other] == 1:
                    ready.append(other)
    return done if len(done) == len(after) else []
