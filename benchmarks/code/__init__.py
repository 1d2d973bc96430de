"""The Code adapter's figures, by replay of recorded samples: `python -m benchmarks.code --data DIR`.

One module per part (hidden, codet, harness, block); `recorded` reads the samples, `estimators` holds the
formulas, which are tested on recordings of known truth.
"""
