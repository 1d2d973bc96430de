"""`python -m draftverify` is the command line."""

import sys

from draftverify.bench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
