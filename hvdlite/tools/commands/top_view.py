"""What `hvdlite top` shows: the lines of a terminal, from what the launcher has sent. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hvdlite.launch.attach.client import FoundJob
from hvdlite.launch.monitor import view
from hvdlite.launch.monitor.board import Row

_MOST_TAKEN = 3
_COLUMNS = (
    view.RANK, view.HOST, view.STEP_TIME, view.WAITING, view.LATE, view.DATA, view.CPU,
    view.MEMORY, view.NOTE, view.LAST,
)  # fmt: skip


def _most_first(value: Callable[[Row], float | None]) -> Callable[[Row], float]:
    """Ranks without a number come last."""
    return lambda row: float("inf") if (number := value(row)) is None else -number


#: By what ranks can be sorted: the largest first, except for their own number.
ORDERS: Mapping[str, Callable[[Row], float]] = {
    "rank": lambda row: row.rank,
    "step": _most_first(lambda row: 1 / row.steps if row.steps else None),
    "waiting": _most_first(lambda row: row.waiting),
    "late": _most_first(lambda row: row.late),
    "data": _most_first(lambda row: row.bytes),
    "cpu": _most_first(lambda row: row.cores),
    "memory": _most_first(lambda row: row.memory),
}


@dataclass(frozen=True)
class View:
    """What the keys have chosen."""

    order: str = "rank"
    reverse: bool = False
    paused: bool = False
    over: bool = False
    dumps: int = 0  # how many were asked for
    said: str = ""  # about the last one, until the next key

    def press(self, key: str) -> View:
        """Returns the choice after a key; keys without a meaning change nothing."""
        if self.said:
            return replace(self, said="").press(key)
        if key == "s":
            names = list(ORDERS)
            return replace(self, order=names[(names.index(self.order) + 1) % len(names)])
        if key == "r":
            return replace(self, reverse=not self.reverse)
        if key == "p":
            return replace(self, paused=not self.paused)
        if key == "d":
            return replace(self, dumps=self.dumps + 1)
        return replace(self, over=True) if key == "q" else self


def ranks(
    frame: Mapping[str, Any], choice: View, width: int, most: int, colours: bool
) -> list[str]:
    """Returns the table, with at most so many ranks."""
    order, sign = ORDERS[choice.order], -1 if choice.reverse else 1
    rows = [Row(**row) for row in frame["rows"]]
    return view.render(rows, width, most, colours, _COLUMNS, lambda row: sign * order(row))


def title(about: Mapping[str, Any], frame: Mapping[str, Any], now: float) -> list[str]:
    """Returns what job this is. `now`: the time of day."""
    count = len(frame["rows"])
    minutes, seconds = divmod(int(max(0.0, now - about["began"])), 60)
    far = f" on {about['on']}" if "on" in about else ""
    parts = [
        f"hvdliterun {about['pid']}{far}",
        f"{count} rank{'' if count == 1 else 's'}",
        f"since {minutes // 60}:{minutes % 60:02}:{seconds:02}",
    ]
    changes = frame["world_changes"]
    if changes:
        parts.append(f"{changes} change{'' if changes == 1 else 's'} of the ranks")
    # A terminal cuts the command, which may be long.
    first = f"{', '.join(parts)}: {about['command']}"
    taken = list(frame.get("taken", ()))  # by other programs; an older hvdliterun does not tell
    return [first, *([frame["heading"]] if frame["heading"] else []), *taken[:_MOST_TAKEN]]


def screen(
    about: Mapping[str, Any],
    frame: Mapping[str, Any],
    choice: View,
    size: tuple[int, int],
    now: float,
    silent: float,
    colours: bool,
) -> list[str]:
    """Returns all lines for a terminal with so many columns and rows. `silent`: for how many
    seconds the launcher has sent nothing."""
    width, height = size[0] - 1, size[1]
    head = title(about, frame, now)
    order = f"sorted by {choice.order}{', reversed' if choice.reverse else ''}"
    state = "PAUSED, " if choice.paused else ""
    if silent >= 5 and not choice.paused:
        state = f"hvdliterun has said nothing for {silent:.0f} s, "
    foot = choice.said or f"{state}{order}.  s: sort  r: reverse  p: pause  d: dump  q: quit"
    # The screen keeps two lines for itself, and the table may need one to count what is left out.
    most = max(1, height - len(head) - 5)
    lines = [*(line[:width] for line in head), *ranks(frame, choice, width, most, colours)]
    return [*lines, foot[:width]]


def dumped(answer: Mapping[str, Any]) -> str:
    """Returns what becomes of a dump, by the launcher's answer."""
    ranks = f"{answer['asked']} rank{'' if answer['asked'] == 1 else 's'}"
    if answer["dumps"]:
        return f"{ranks} will write a bundle: `hvdlite explain {answer['dumps']}` shows it."
    whose = "its" if answer["asked"] == 1 else "their"
    return f"{ranks} will print {whose} stacks to the job's stderr (--stall-dump: to files)."


def listing(jobs: Sequence[FoundJob]) -> list[str]:
    """Returns a line for each job."""
    return [f"{job.pid:>8}  {_in_a_line(job.about)}" for job in jobs]


def _in_a_line(about: Mapping[str, Any] | None) -> str:
    if about is None:
        return "does not answer"
    count = about["ranks"]
    where = f"{count} rank{'' if count == 1 else 's'} on {', '.join(about['hosts'])}"
    return f"on {about['launcher']}: {where if count else 'no ranks yet'}  {about['command']}"
