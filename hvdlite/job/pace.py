"""What a progress bar says of the other ranks. Pure: times are arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

# Rates cover the last seconds, as those of `hvdliterun --monitor`.
WINDOW_SECONDS = 10.0
# Smaller differences are noise.
_SLOWER = 0.9
_SHARE_WORTH_A_WORD = 0.1


class Rate:
    """How fast a counter grows."""

    def __init__(self, now: float, count: float = 0) -> None:
        self._readings = deque([(now, count)])  # those within the window, and one before it

    def read(self, now: float, count: float) -> float:
        """Returns the growth per second within the window."""
        readings = self._readings
        readings.append((now, count))
        while len(readings) > 2 and readings[1][0] <= now - WINDOW_SECONDS:
            readings.popleft()
        span = now - readings[0][0]
        return (count - readings[0][1]) / span if span > 0 else 0.0


def about_others(
    mine: float, others: Mapping[int, float], waited: Mapping[int, float], unit: str
) -> str:
    """Returns which rank is the slowest, or an empty text if none stands out.

    `mine`: this rank's steps per second; `others`: those of other ranks, as far as they are known;
    `waited`: for each rank, the share of the time in which all others waited for it.
    """
    if others:
        slowest = min(others, key=lambda rank: (others[rank], rank))
        if others[slowest] < _SLOWER * mine:
            return f"slowest: rank {slowest}, {number(others[slowest])} {unit}/s"
    if len(waited) > 1:
        last = max(waited, key=lambda rank: (waited[rank], -rank))
        if waited[last] > _SHARE_WORTH_A_WORD:
            return f"{min(waited[last], 1.0):.0%} waits for rank {last}"
    return ""


def line(
    desc: str, unit: str, count: int, total: int | None, seconds: float, rate: float, note: str
) -> str:
    """Returns how far a loop is, for a log."""
    done = f"{count} of {total} ({count / total:.0%})" if total else f"{count}"
    if total and count < total and rate > 0:
        when = f"{duration((total - count) / rate)} left"
    else:
        when = f"{duration(seconds)} so far"
    text = ", ".join([done, f"{number(rate)} {unit}/s", when, *([note] if note else [])])
    return f"{desc}: {text}" if desc else text


def number(rate: float) -> str:
    """Returns three digits."""
    return f"{rate:.0f}" if rate >= 100 or rate == 0 else f"{rate:.3g}"


def duration(seconds: float) -> str:
    """Returns 1:05 or 1:00:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
