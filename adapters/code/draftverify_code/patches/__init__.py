"""Patches to a repository: read once, changed by git without a work tree, and laid out where the tests run."""

from draftverify_code.patches.container import Container
from draftverify_code.patches.workspace import PROTECTED, Workspace

__all__ = ["PROTECTED", "Container", "Workspace"]
