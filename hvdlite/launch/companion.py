"""What goes along with a job: the function and its results, or the monitor."""

from __future__ import annotations

from hvdlite.rendezvous.server import StoreServer


class Companion:
    """Does nothing; others override what they need. All of it is called by the thread that supervises the job."""

    def begin(self, store: StoreServer, secret: bytes) -> None:
        """The store is there, the ranks are not yet."""

    def tick(self) -> float | None:
        """Called often while the ranks run. After how many seconds at the latest to call again, if that matters."""
        return None

    def end(self) -> None:
        """All ranks have ended, the store is still there. Not called when an exception has ended the job."""
