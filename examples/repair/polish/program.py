def value(tokens):
    """What an expression in reverse Polish notation comes to."""
    stack = []
    for token in tokens:
        if token in ("+", "-", "*"):
            left = stack.pop()
            right = stack.pop()
            if token == "+":
                stack.append(left + right)
            elif token == "-":
                stack.append(left - right)
            else:
                stack.append(left * right)
        else:
            stack.append(int(token))
    return stack.pop()
