"""What a host discovery script has said. Pure."""

from __future__ import annotations

from collections import Counter

from hvdlite.launch.hosts import Host, parse_hosts
from hvdlite.launch.one_line import printable
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
