"""`pytest -p hvdlite.compat.pytest`: tests for which horovod is hvdlite, and so for what they start."""

from hvdlite import compat

# Now: conftest files may import horovod, too.
compat.activate()
