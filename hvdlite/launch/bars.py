r"""Turns progress bars into lines of a file: from time to time, one state of `10%\r20%\r30%\r`.
Pure: times are arguments."""

from __future__ import annotations

from collections.abc import Sequence

# As often as --monitor writes a line without a terminal.
SECONDS = 10.0


class Bars:
    """The bars of one stream. A state is the text before a carriage return; the text behind it
    replaces the state, as on a terminal."""

    def __init__(self) -> None:
        self.drawing = False  # the next text replaces the state
        self._state = b""  # the newest state that was not shown
        self._shown = b""
        self._due = float("-inf")  # when the next state may be shown

    def thin(self, lines: Sequence[bytes], now: float) -> list[bytes]:
        """Returns the lines to show now, each with its end."""
        shown: list[bytes] = []
        for line in lines:
            if line.endswith(b"\r"):
                self.drawing = True
                self._state = line[:-1] or self._state
                continue
            if self.drawing and not line.strip():
                shown += self.rest()
            elif line and not (self.drawing and line.rstrip() == self._shown.rstrip()):
                shown.append(line)
            if line:
                self.drawing, self._state, self._shown = False, b"", b""
        return shown + self.tick(now)

    def tick(self, now: float, unfinished: bytes = b"") -> list[bytes]:
        """Returns the newest state, if it is time for one. `unfinished`: the text behind the last
        carriage return."""
        self._state = unfinished or self._state
        if not self.drawing or now < self._due:
            return []
        return self._show(now)

    def rest(self) -> list[bytes]:
        """Returns what has to be shown at the end."""
        return self._show(self._due)

    def wait(self, now: float) -> float | None:
        """Returns the seconds until tick() has something to show, if it will have."""
        return (
            max(0.0, self._due - now)
            if self.drawing and self._state not in (b"", self._shown)
            else None
        )

    def _show(self, now: float) -> list[bytes]:
        state, self._state = self._state, b""
        if not state.strip() or state == self._shown:
            return []
        self._shown, self._due = state, max(self._due, now + SECONDS)
        return [state + b"\n"]
