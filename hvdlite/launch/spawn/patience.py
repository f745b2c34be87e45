"""How long hvdliterun waits for a host that was asked to end its ranks. Pure: times are
arguments."""

from __future__ import annotations

# A host that still sends is not given up: if the reader of the job's output was slow, much may be
# on its way.
SILENCE_SECONDS = 2.0


class Patience:
    """The patience with one host."""

    def __init__(self) -> None:
        self._deadline: float | None = None
        self._heard = float("-inf")

    def asked(self, seconds: float, now: float) -> None:
        """The host was asked: its ranks should be gone in `seconds`. A second request does not
        extend the time."""
        until = now + seconds
        self._deadline = until if self._deadline is None else min(self._deadline, until)

    def heard(self, now: float) -> None:
        """The host has sent something, or it was not read until now."""
        self._heard = now

    def left(self, now: float) -> float | None:
        """Returns the seconds until it has to be given up: 0 means now, None that it was asked for
        nothing."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - now, self._heard + SILENCE_SECONDS - now)
