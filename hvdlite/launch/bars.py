r"""Progress bars in a file: of `10%\r20%\r30%\r` now and then one state, as a line of its own. Pure: times are handed in."""

from __future__ import annotations

from collections.abc import Sequence

# As often as --monitor writes a line where there is no terminal.
SECONDS = 10.0


class Bars:
    """Of one stream. A state is what stands before a carriage return; what follows it takes its place, as on a terminal."""

    def __init__(self) -> None:
        self.drawing = False  # what comes takes the place of what was
        self._state = b""  # the newest that was not shown
        self._shown = b""
        self._due = float("-inf")  # when the next may be shown

    def thin(self, lines: Sequence[bytes], now: float) -> list[bytes]:
        """What of these lines is to be shown now, each with its end."""
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
        """The newest state, if it is time for one; `unfinished`: what has come after the last carriage return."""
        self._state = unfinished or self._state
        if not self.drawing or now < self._due:
            return []
        return self._show(now)

    def rest(self) -> list[bytes]:
        """What has to be shown at the end."""
        return self._show(self._due)

    def wait(self, now: float) -> float | None:
        """Seconds until tick() has something to show, if there is something."""
        return max(0.0, self._due - now) if self.drawing and self._state not in (b"", self._shown) else None

    def _show(self, now: float) -> list[bytes]:
        state, self._state = self._state, b""
        if not state.strip() or state == self._shown:
            return []
        self._shown, self._due = state, max(self._due, now + SECONDS)
        return [state + b"\n"]
