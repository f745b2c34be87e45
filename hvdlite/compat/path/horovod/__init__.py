"""Is found where programs look for horovod, and puts hvdlite in its place. See hvdlite.compat; `hvdlite compat install` copies it."""

import os
import sys

try:
    from hvdlite import compat
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"horovod is a name for hvdlite here ({__file__}), but {sys.executable} cannot import {error.name}: "
        "install hvdlite for this Python, or end the alias with `pip uninstall horovod`.",
        name="horovod",
    ) from error
from hvdlite.compat import finder, original

__version__ = compat.HOROVOD_VERSION

# Modules that hvdlite has under no other name are beside this file in hvdlite, wherever this copy of it is.
__path__ = [os.path.join(compat.DIRECTORY, "horovod")]

finder.install()
original.say_if_hidden()
