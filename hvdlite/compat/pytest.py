"""`pytest -p hvdlite.compat.pytest`: runs tests for which horovod is hvdlite, also in processes
that they start."""

from hvdlite import compat

# At once, because conftest files may import horovod, too.
compat.activate()
