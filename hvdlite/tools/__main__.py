"""`python -m hvdlite.tools` is `hvdlite`."""

import sys

from hvdlite.tools.commands.cli import main

sys.exit(main())
