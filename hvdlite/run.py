"""`python -m hvdlite.run` is `hvdliterun`; `hvdlite.run(fn)` is a function, and stays one after
`import hvdlite.run`."""

import sys

if __name__ == "__main__":
    from hvdlite.launch.cli import main

    sys.exit(main())

from hvdlite.launch.function import run

# The import system binds to `hvdlite.run` what it finds here.
sys.modules[__name__] = run  # type: ignore[assignment]
