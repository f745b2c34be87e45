"""What the output of a host discovery script means. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hvdlite.base.untrusted import printable
from hvdlite.launch.hosts import Host, parse_hosts
from hvdlite.launch.plan import MOST_RANKS

MOST_BYTES = 64 << 10
_SHOWN = 80  # characters of a line in an error


class BadAnswer(ValueError):
    """The output names no hosts. The text says why; the last answer stays."""


def parse(output: bytes, slots_per_host: int = 1) -> tuple[Host, ...]:
    """A host per line, `host` or `host:slots` as in -H; blank lines count for nothing.

    An answer without any host is refused: a script that fails prints nothing, too.
    """
    if len(output) > MOST_BYTES:
        raise BadAnswer(f"it has printed more than {MOST_BYTES} bytes")
    try:
        text = output.decode()
    except UnicodeDecodeError:
        raise BadAnswer("it has printed bytes that are no text") from None
    hosts = [_host(line.strip(), slots_per_host) for line in text.split("\n") if line.strip()]
    if not hosts:
        raise BadAnswer("it has named no host")
    twice = [name for name, count in Counter(host.name for host in hosts).items() if count > 1]
    if twice:
        raise BadAnswer(f"it has named host {min(twice)[:_SHOWN]!r} twice")
    if sum(host.slots for host in hosts) > MOST_RANKS:
        raise BadAnswer(f"it has named more than {MOST_RANKS} slots")
    return tuple(hosts)


def _host(line: str, slots_per_host: int) -> Host:
    try:
        [host] = parse_hosts(line)
    except ValueError:
        shown = printable(line[:_SHOWN])
        raise BadAnswer(f"it has printed {shown!r}; expected `host` or `host:slots`") from None
    return Host(host.name, slots_per_host) if line == host.name else host


@dataclass(frozen=True)
class Answer:
    """What one run of the script has come to."""

    hosts: tuple[Host, ...] | None = None  # if they are others than before
    trouble: str = ""  # to be told
    fatal: bool = False  # the job cannot start with it


class Answers:
    """The runs of a discovery script, one after the other.

    A failure of the first is fatal. Later ones are told, each kind once until a run has gone well,
    and the last answer stays.
    """

    def __init__(self, slots_per_host: int = 1) -> None:
        self._slots_per_host = slots_per_host
        self._last: tuple[Host, ...] | None = None
        self._told: set[str] = set()

    def ended(self, status: int, output: bytes) -> Answer:
        """It has exited, or was killed. `output`: 64 KiB of it and a byte more, at most."""
        if status:
            return self._failed(f"it has ended with status {status}", kind="status")
        try:
            hosts = parse(output, self._slots_per_host)
        except BadAnswer as error:
            return self._failed(str(error), kind="output")
        self._told.clear()
        changed, self._last = hosts != self._last, hosts
        return Answer(hosts if changed else None)

    def hangs(self, seconds: float) -> Answer:
        """It was killed because it did not end."""
        return self._failed(f"it was killed, as it ran for more than {seconds:g} s", kind="hangs")

    def _failed(self, why: str, kind: str) -> Answer:
        trouble = f"the host discovery script has failed: {why}."
        first = self._last is None
        if kind in self._told:
            return Answer(fatal=first)
        self._told.add(kind)
        return Answer(None, trouble if first else f"{trouble} Its last answer stays.", first)
