"""`python -m hvdlite.launch` is `hvdliterun`."""

import sys

from hvdlite.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
