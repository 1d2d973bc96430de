"""Drafts of code, checked by syntax, types, compilers and tests."""
