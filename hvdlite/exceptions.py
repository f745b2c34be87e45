"""What hvdlite raises.

    Exception
    ├── RuntimeError
    │   ├── HorovodInternalError          a collective failed
    │   │   ├── MismatchError             ranks asked for different things: fix the program, no
    │   │   │                             retry helps
    │   │   ├── PeerLostError             a rank died or fell silent; `.rank` says which
    │   │   └── ShutDownError             the job was shut down while (or before) the operation ran
    │   └── HostsUpdatedInterrupt         elastic: hosts came or went; nothing failed
    ├── ValueError
    │   ├── NotInitializedError           hvd.init() is missing
    │   └── DuplicateNameError            the name belongs to an operation that has not finished
    └── ImportError
        └── HorovodVersionMismatchError   the library was built for another version of the framework

Arguments that are wrong by themselves are plain ValueError or TypeError, raised at the call.
`HorovodInternalError.retryable` tells elastic training whether restoring the last state may help.
All of them can be pickled, because a launcher hands a rank's exception to the caller of run().
"""

from __future__ import annotations

import enum
from typing import NamedTuple

#: What every adapter has under its own name, too.
__all__ = [
    "DuplicateNameError", "HorovodInternalError", "MismatchError", "NotInitializedError",
    "PeerLostError", "ShutDownError",
]  # fmt: skip


class Cause(enum.IntEnum):
    """Why a rank is lost. The numbers are those of csrc/api/hvdlite.h."""

    UNKNOWN = 0
    DIED = 1  #: its process has ended without hvd.shutdown()
    CLOSED = 2  #: it has closed its connection: its process has ended or given up
    SILENT = 3  #: it gives no sign of life
    NETWORK = 4  #: the network between two ranks
    DAMAGED = 5  #: what comes from it has changed on the way
    FAILED = 6  #: it has said that it fails
    ENDED = 7  #: whoever started the job has ended it


class Loss(NamedTuple):
    """`ranks`: the lost one; for NETWORK then the one that has noticed it, and others that this one
    does not reach either."""

    cause: int = Cause.UNKNOWN
    ranks: tuple[int, ...] = ()


class HorovodInternalError(RuntimeError):
    """A collective failed. Elastic training restores its last state and tries again if
    `retryable`."""

    retryable: bool = True


class MismatchError(HorovodInternalError):
    """Ranks disagree about a tensor (shape, type, operation, root, ...). Raised on every one of
    them."""

    retryable = False


class PeerLostError(HorovodInternalError):
    """A rank died, closed its connection or fell silent."""

    def __init__(self, message: str = "a peer was lost", rank: int = -1) -> None:
        super().__init__(message)
        #: the lost rank; -1 where it is not known
        self.rank = rank
        #: why it is lost, and between which ranks
        self.loss = Loss(Cause.UNKNOWN, () if rank < 0 else (rank,))


class ShutDownError(HorovodInternalError):
    """Horovod has been shut down, here or on another rank, before the operation could finish."""


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts were added or removed (elastic). `skip_sync`: no rank was lost, so state needs no
    broadcast."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__(skip_sync)
        self.skip_sync = skip_sync

    def __str__(self) -> str:
        return "the set of hosts has changed"


class NotInitializedError(ValueError):
    """Something was asked that only an initialised process can answer."""

    def __init__(
        self,
        message: str = "Horovod (hvdlite) is not initialized in this process. "
        "Add this line before the first use of hvd:  hvd.init()",
    ) -> None:
        super().__init__(message)


class DuplicateNameError(ValueError):
    """The name is in use by an operation of this rank that has not finished."""


class HorovodVersionMismatchError(ImportError):
    """The framework that is installed is not the one this library was built for."""

    def __init__(self, name: str, version: str | None, installed_version: str | None) -> None:
        super().__init__(
            f"This installation was made for {name} {version}, but {name} {installed_version} is "
            f"installed. Reinstall hvdlite, or install {name} {version}.",
            name=name,
        )
        self.version = version
        self.installed_version = installed_version

    def __reduce__(
        self,
    ) -> tuple[type[HorovodVersionMismatchError], tuple[str | None, str | None, str | None]]:
        return type(self), (self.name, self.version, self.installed_version)
