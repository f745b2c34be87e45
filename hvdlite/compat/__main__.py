"""`python -m hvdlite.compat train.py ...`: runs a program for which horovod is hvdlite.

`-m module ...` and `-c code ...` work, too.
"""

from __future__ import annotations

import os
import sys

from hvdlite import compat

_USAGE = """\
usage: python -m hvdlite.compat [options of python] (script.py | -m module | -c code) \
[arguments ...]

Runs a Python program, and the processes that it starts, with hvdlite under the name horovod.
With several ranks:
  hvdliterun -np 2 python -m hvdlite.compat train.py --epochs 3
docs/guides/migrating.md lists other ways, and what differs from Horovod.
`hvdlite doctor train.py` looks for these differences in a program."""


def interpreter_options(whole: list[str], arguments: int) -> list[str]:
    """Returns the options between `python` and `-m hvdlite.compat` on the command line, whose last
    `arguments` belong to the program."""
    ours = whole[1 : len(whole) - arguments]
    if ours and not ours[-1].startswith("-"):
        ours.pop()  # the module, after its -m
    # The rest of `-m`, `-um` or `-mhvdlite.compat`.
    cluster = ours.pop().partition("m")[0] if ours else "-"
    return ours if cluster == "-" else [*ours, cluster]


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE)
        sys.exit(0 if arguments else 2)
    if sys.flags.ignore_environment:
        sys.exit(
            "hvdlite.compat: python -I and -E ignore PYTHONPATH, on which horovod's alias is "
            "found. Leave them out."
        )
    # Python itself runs the program in this process, so sys.argv, __main__, tracebacks and exit
    # codes are right.
    os.environ.update(compat.environment(os.environ))
    sys.stdout.flush()
    os.execv(
        sys.executable,
        [sys.executable, *interpreter_options(sys.orig_argv, len(arguments)), *arguments],
    )


if __name__ == "__main__":
    main()
