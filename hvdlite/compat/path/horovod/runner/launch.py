"""horovod.runner.launch: horovodrun's command line, which is hvdliterun's."""

from __future__ import annotations

import sys
from typing import NoReturn

from hvdlite import compat
from hvdlite.launch import cli

__all__ = ["run_commandline"]


def run_commandline() -> NoReturn:
    """What `horovodrun` does: hvdliterun, with horovod an alias in every rank."""
    if sys.argv[1:] in (["-v"], ["--version"]):
        print(compat.HOROVOD_VERSION)  # scripts compare it
        sys.exit(0)
    sys.exit(cli.main(["--horovod-compat", *sys.argv[1:]]))
