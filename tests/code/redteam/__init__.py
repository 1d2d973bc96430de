"""Hostile candidates for the sandbox, and the world in which what they do is observed."""
