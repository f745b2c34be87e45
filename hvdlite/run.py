"""`python -m hvdlite.run` is `hvdliterun`. Not to be imported: `hvdlite.run` is a function."""

import sys

from hvdlite.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
