"""The entry point "torch.backends", which torch loads at the end of `import torch`.

It lies outside of the package: a hvdlite that cannot be imported must not take torch with it.
"""

from __future__ import annotations

import sys


def register() -> None:
    """Tells torch.distributed of the backend hvdlite, or says on stderr why not."""
    try:
        from hvdlite.torch import autoload
    except Exception as error:
        print(
            f"hvdlite: torch.distributed has no backend hvdlite: {type(error).__name__}: {error}",
            file=sys.stderr,
        )
        return
    autoload.register()
