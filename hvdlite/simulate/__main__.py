"""`python -m hvdlite.simulate` is `hvdlite simulate`."""

import sys

from hvdlite.simulate.cli import main

sys.exit(main())
