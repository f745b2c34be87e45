"""For how long a host that was asked to end its ranks is waited for. Pure: times are handed in."""

from __future__ import annotations

# A host that still speaks is not given up: where the reader of the job's output was slow, much may wait on its way here.
SILENCE_SECONDS = 2.0


class Patience:
    """With one host."""

    def __init__(self) -> None:
        self._deadline: float | None = None
        self._heard = float("-inf")

    def asked(self, seconds: float, now: float) -> None:
        """Its ranks will be gone in so many seconds, if it has heard. Who is asked again has not more time than before."""
        until = now + seconds
        self._deadline = until if self._deadline is None else min(self._deadline, until)

    def heard(self, now: float) -> None:
        """It has said something, or was not listened to until now."""
        self._heard = now

    def left(self, now: float) -> float | None:
        """Seconds until it has to be given up: 0 when that is now, None when it was asked for nothing."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - now, self._heard + SILENCE_SECONDS - now)
