"""The command line: one file per command, joined lazily in `main`, with its exit codes in `exits`."""
