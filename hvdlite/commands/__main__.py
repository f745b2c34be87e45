"""`python -m hvdlite.commands` is `hvdlite`."""

import sys

from hvdlite.commands.cli import main

sys.exit(main())
