"""A machine with a stack that knows four words."""


def run(program):
    stack = []
    for word in program.split():
        if word == "dup":
            stack.append(stack[-1])
        elif word == "swap":
            stack[-1], stack[-2] = stack[-2], stack[-1]
        elif word == "add":
            stack.append(stack.pop() + stack.pop())
        elif word == "drop":
            stack.pop(0)
        else:
            stack.append(int(word))
    return stack
