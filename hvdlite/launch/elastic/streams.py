"""The output of an elastic job's members: prefixes have the ranks of the moment, and files have the
numbers of members."""

from __future__ import annotations

from collections.abc import Mapping

from hvdlite.launch import output
from hvdlite.launch.collapse import Collapse
from hvdlite.launch.console import Console

NAMES = ("stdout", "stderr")


class Streams:
    """`directory`: for --output-filename. `collapse`: prints a line once that several members
    print. A directory to which nothing can be written is an error until there is a generation;
    later members train without a copy of their output."""

    def __init__(self, console: Console, directory: str | None, collapse: bool) -> None:
        self._say = console.say
        self._sinks = {"stdout": console.stdout, "stderr": console.stderr}
        self._directory = directory
        self._together = {name: Collapse(name, [], self._sinks[name]) for name in NAMES if collapse}
        self._members: dict[int, Mapping[str, output.Stream]] = {}
        self._begun = False  # there has been a generation

    def open(self, member: int, rank: int) -> Mapping[str, output.Stream]:
        """Of a process that is about to start. `rank`: the one that it is told. May raise OSError:
        a copy cannot be written."""
        found = {
            name: output.Stream(
                rank, name, self._sinks[name], self._copy(member, name), self._together.get(name),
                source=member,
            )
            for name in NAMES
        }  # fmt: skip
        self._members[member] = found
        for together in self._together.values():
            together.start(member, rank, awaited=not self._begun)
        return found

    def close(self, member: int) -> None:
        """The process is gone, and its output has been read."""
        self._members.pop(member, None)

    def renumber(self, ranks: Mapping[int, int]) -> None:
        """A generation: members and their ranks."""
        self._begun = True
        for member, rank in ranks.items():
            for stream in self._members.get(member, {}).values():
                stream.rank = rank
        for together in self._together.values():
            together.renumber(ranks)

    def _copy(self, member: int, name: str) -> int | None:
        if not self._directory:
            return None
        try:
            return output.open_copy(self._directory, member, 1, name)
        except OSError as error:
            if not self._begun:
                raise
            self._say(
                f"there is no copy of member {member}'s {name}: cannot write to {error.filename}: "
                f"{error.strerror}."
            )
            return None
