"""`hvdlite leave`: ranks of an elastic job on this host leave it at the next boundary."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence

from hvdlite.rendezvous import StoreClient, documents
from hvdlite.rendezvous.addresses import parse_address
from hvdlite.rendezvous.documents import decode_assignment
from hvdlite.tools.commands.ranks_here import RankHere, ranks_here, secret_of

_PATIENCE_SECONDS = 10.0


class CannotLeave(Exception):
    """The text says why."""


def run(arguments: argparse.Namespace) -> int:
    """Runs the command, says what it did, and returns the exit status."""
    try:
        if arguments.seconds is not None and not 0 <= arguments.seconds < 1e9:
            raise CannotLeave(f"--seconds {arguments.seconds:g} is not allowed")
        with contextlib.ExitStack() as stack:
            ranks = stack.enter_context(ranks_here())
            address = job_of(arguments.job, [rank.job for rank in ranks], os.environ)
            mine = [rank for rank in ranks if rank.job == address]
            at = parse_address(address, "HVDLITE_RENDEZVOUS")
            store = stack.enter_context(StoreClient(at, secret_of(mine[0].pid)))
            chosen = _chosen(arguments.rank, arguments.slot, mine, store)
            whole_host = arguments.rank is None and arguments.slot is None
            first = chosen[0]
            key = f"{documents.LEAVE_HOST if whole_host else documents.LEAVE}/{first.member}"
            asked = documents.leave_request(arguments.reason, arguments.seconds)
            store.set(f"elastic/{key}", documents.encode_leave_request(asked, key, first.token()))
            names = ", ".join(f"member {rank.member} (slot {rank.slot})" for rank in chosen)
            if not arguments.no_wait:
                _wait(chosen)
            said = "was asked to leave" if arguments.no_wait else "has left"
            print(f"{names} of the job at {address} {said}.")
    except (CannotLeave, ConnectionError, TimeoutError, ValueError) as why:
        print(f"hvdlite leave: {why}.", file=sys.stderr)
        return 1
    return 0


def job_of(meant: str | None, jobs: Sequence[str], environ: Mapping[str, str]) -> str:
    """The job that is meant: that of the command line, of this process, or the only one. Pure."""
    found = sorted(set(jobs))
    if not found:
        raise CannotLeave("no rank of an elastic job runs on this host as this user")
    if meant is None and environ.get("HVDLITE_MEMBER"):
        meant = environ.get("HVDLITE_RENDEZVOUS")
    if meant is None and len(found) > 1:
        raise CannotLeave(
            f"several elastic jobs have ranks on this host: --job {' or --job '.join(found)}"
        )
    if meant is not None and meant not in found:
        raise CannotLeave(f"no rank of the job at {meant} runs here, but of {', '.join(found)}")
    return meant or found[0]


def _chosen(
    rank: int | None, slot: int | None, ranks: Sequence[RankHere], store: StoreClient
) -> list[RankHere]:
    """Those of this host: the one with this rank or in this slot, or all."""
    if rank is None and slot is None:
        return list(ranks)
    if slot is not None:
        chosen, what = [each for each in ranks if each.slot == slot], f"slot {slot}"
        there = "slots " + ", ".join(str(each.slot) for each in ranks)
    else:
        numbers = dict(_present(ranks, store))
        chosen, what = [each for each, number in numbers.items() if number == rank], "that rank"
        there = "ranks " + ", ".join(str(number) for number in numbers.values())
    if not chosen:
        raise CannotLeave(f"{what} of the job is not on this host, which has {there}")
    return chosen


def _present(ranks: Sequence[RankHere], store: StoreClient) -> Iterator[tuple[RankHere, int]]:
    """Yields those that are in the latest generation, with their ranks in it."""
    generation = int(store.get(f"elastic/{documents.GENERATION}", _PATIENCE_SECONDS))
    assignment = decode_assignment(store.get(f"elastic/assignment/{generation}", _PATIENCE_SECONDS))
    numbers = assignment.member_numbers()
    for rank in ranks:
        if rank.member in numbers:
            yield rank, numbers.index(rank.member)


def _wait(ranks: Sequence[RankHere]) -> None:
    """Waits until their processes have ended."""
    waiting = {rank.descriptor for rank in ranks}
    poll = select.poll()
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting:
        for descriptor, _ in poll.poll():
            poll.unregister(descriptor)
            waiting.discard(descriptor)
