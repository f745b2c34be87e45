"""Whether the members fail by the program's own fault, wherever they run. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hvdlite.launch.verdict import is_consequence

IN_A_ROW = 3


@dataclass(frozen=True)
class Failure:
    """How a member has ended that should have gone on."""

    member: int
    host: str
    status: int
    last_line: str
    refused: bool = False  # a newcomer that cannot be in the job; the line says why

    @property
    def is_consequence(self) -> bool:
        """Whether another member's end was the cause."""
        return self.status < 128 and is_consequence(self.last_line.encode(errors="replace"))

    def sentence(self) -> str:
        how = "is refused" if self.refused else f"ended with status {self.status}"
        said = f": {self.last_line}" if self.last_line else ""
        return f"member {self.member} on {self.host} {how}{said}"


class Faults:
    """The same last line from three members in a row at one position is the program's fault."""

    def __init__(self) -> None:
        self._new: list[Failure] = []
        self._line: tuple[str, int] | None = None
        self._times = 0

    def note(self, failure: Failure) -> None:
        """Of one whose position is known later. Consequences do not count."""
        if not failure.is_consequence:
            self._new.append(failure)

    def at(self, position: int) -> Failure | None:
        """All that were noted have failed there. Returns the third in a row."""
        new, self._new = self._new, []
        for failure in new:
            line = (failure.last_line, position) if failure.last_line else None
            self._times = self._times + 1 if line == self._line else 1
            self._line = line
            if line is not None and self._times >= IN_A_ROW:
                return failure
        return None
