"""Operating points in five domains: predicted, written down, and held against what was measured."""
