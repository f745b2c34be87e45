"""What members write below `elastic/` in the store, as events. Pure: times are handed in.

The job's secret lets a process write any key. What a member says of itself counts only if it is
sealed with the member's token, which was given to that member's process alone. So a process that is
left over from an earlier life of a slot cannot speak for its successor. What is refused is told,
and changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping

from hvdlite.base.untrusted import printable
from hvdlite.launch.elastic import events
from hvdlite.rendezvous import documents, fields
from hvdlite.rendezvous.quota import Quota

_REQUESTS = (documents.LEAVE, documents.LEAVE_HOST)
_TOKEN_BYTES = 32
_MOST_SHOWN = 80  # characters of a key
# By the first word of a key: how many numbers follow.
_NUMBERS = {"report": 2, "in": 2, "trains": 1, "done": 1} | dict.fromkeys(_REQUESTS, 1)
_MOST_DIGITS = 18


class StoreEvents:
    """`say` tells people of what is refused: a few lines a minute, then a count. `hosts`: of the
    members, as they are now."""

    def __init__(
        self, say: Callable[[str], None], hosts: Callable[[], Mapping[int, str]] = dict
    ) -> None:
        self._say = say
        self._hosts = hosts
        self._tokens: dict[int, bytes] = {}
        self._quota = Quota()

    def new_token(self, member: int) -> bytes:
        """For the process of this member, and no other."""
        self._tokens[member] = secrets.token_bytes(_TOKEN_BYTES)
        return self._tokens[member]

    def read(self, letters: Iterable[tuple[str, bytes]], now: float) -> list[events.Event]:
        """`letters`: keys without `elastic/`, and values, in their order."""
        left_out = self._quota.take(now)
        if left_out:
            self._say(f"{left_out} more keys of the job's store were refused.")
        found = []
        for key, value in letters:
            try:
                found.append(self._event(key, value))
            except documents.Refused as refused:
                if self._quota.allows(now):
                    shown = printable(key[:_MOST_SHOWN])
                    self._say(f"{shown} in the job's store is refused: {refused}.")
        return found

    def _event(self, key: str, value: bytes) -> events.Event:
        what, *words = key.split("/")
        if len(words) != _NUMBERS.get(what) or not all(map(_is_number, words)):
            raise documents.Refused("it is no key of a member")
        numbers = [int(word) for word in words]
        member = numbers[-1]
        if member not in self._tokens:
            raise documents.Refused(f"there is no member {member}")
        if what == "report":
            return self._report(value, member, numbers[0])
        if what in _REQUESTS:
            return self._request(what, member, value)
        fields.check_key(key, value, self._tokens[member], member)
        if what == "in":
            return events.Entered(member, numbers[0])
        return events.Trains(member) if what == "trains" else events.Returned(member)

    def _report(self, value: bytes, member: int, generation: int) -> events.Event:
        try:
            token = self._tokens[member]
            return events.Reported(documents.decode_report(value, token, member, generation))
        except documents.OtherRelease as other:
            return events.Unfit(member, str(other))

    def _request(self, what: str, member: int, value: bytes) -> events.Event:
        asked = documents.decode_leave_request(
            value, f"{what}/{member}", self._tokens[member], member
        )
        host = self._hosts().get(member)
        if host is None:
            raise documents.Refused(f"member {member} has no host")
        if what == documents.LEAVE:
            return events.MemberLeaves(member, asked.reason, asked.seconds)
        return events.HostLeaves(host, asked.reason, asked.seconds)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS
