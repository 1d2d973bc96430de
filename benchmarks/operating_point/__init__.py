"""Operating points in several domains: predicted, written down, and held against what was measured."""
