"""Experiments as YAML: located values, forms read from signatures, messages that say where and what."""
