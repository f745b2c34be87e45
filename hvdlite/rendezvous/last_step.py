"""Which whole step is the last one that the job has, and who takes it from whom. Pure.

A member's state is whole or torn. It is torn from the first change that a step makes until the
boundary behind the step, and while it is received or restored. Two members are never more than
one boundary apart when both are whole, because no rank passes a boundary alone. Reductions give
all ranks the same bits, so a member that is whole at n+1 has the only n+1 there is.

| reports                                        | decision                                       |
|------------------------------------------------|------------------------------------------------|
| all are newcomers: the first generation        | rank 0 keeps and sends, all others receive     |
| no member is beyond position 0                 | the first restores the copy that a state makes |
|                                                | when it is built and sends it                  |
| some whole at n, others at n-1 or torn         | the first whole at n sends, the others receive |
| all whole at n                                 | all keep, nothing moves                        |
| none whole, the newest copies are at c         | those with c restore, the others receive       |
| whole ones more than a boundary apart,         | Inconsistent                                   |
| or of one position with different fingerprints |                                                |
| none whole and no copy                         | Inconsistent                                   |

Copies at position 0 differ between ranks, as each was made before the first sync.
Therefore the last row but two sends the first one's copy if c is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hvdlite.rendezvous.documents import Report, Role


class Inconsistent(Exception):
    """No state can be the job's. The text names the members; the job has to end with it."""


@dataclass(frozen=True)
class Decision:
    position: int
    source: int | None  # the member that sends; None: nothing moves
    roles: dict[int, Role]  # by member


def decide(reports: Sequence[Report]) -> Decision:
    """`reports` of a generation's members, in the order of its ranks."""
    holders = [report for report in reports if not report.newcomer]
    if not holders:
        return _from_one(reports, reports[0], Role.KEEP)
    whole = [report for report in holders if report.whole]
    if whole and any(report.position for report in holders):
        return _from_whole(reports, whole)
    return _from_copies(reports, holders, whole)


def _from_whole(reports: Sequence[Report], whole: Sequence[Report]) -> Decision:
    newest = max(report.position for report in whole)
    behind = [report.member for report in whole if report.position < newest - 1]
    ahead = [report for report in whole if report.position == newest]
    if behind:
        raise Inconsistent(
            f"member {ahead[0].member} is at position {newest}, and {_named(behind)} more than "
            "one boundary behind with a whole state: the ranks have not trained together"
        )
    _check_fingerprints(ahead)
    keep = {report.member for report in ahead}
    return _decision(reports, newest, keep, Role.KEEP)


def _from_copies(
    reports: Sequence[Report],
    holders: Sequence[Report],
    whole: Sequence[Report],
) -> Decision:
    copies = [report.copy for report in holders if report.copy is not None]
    newest = max(copies, default=None)
    if newest is None and not whole:
        raise Inconsistent(
            "the last step has failed in the middle on all ranks, and no rank has a copy to go "
            "back to: make copies with state.commit(), or with copies='always'"
        )
    if newest is None:
        return _from_one(reports, whole[0], Role.KEEP)
    with_newest = [report for report in holders if report.copy == newest]
    if newest == 0:
        return _from_one(reports, with_newest[0], Role.RESTORE)
    return _decision(reports, newest, {report.member for report in with_newest}, Role.RESTORE)


def _from_one(reports: Sequence[Report], source: Report, role: Role) -> Decision:
    roles = {report.member: Role.RECEIVE for report in reports}
    roles[source.member] = role
    return Decision(0, source.member if len(roles) > 1 else None, roles)


def _decision(reports: Sequence[Report], position: int, have: set[int], role: Role) -> Decision:
    """Those who `have` the state of the position take the role; the others receive."""
    roles = {r.member: role if r.member in have else Role.RECEIVE for r in reports}
    moves = Role.RECEIVE in roles.values()
    source = next(r.member for r in reports if r.member in have) if moves else None
    return Decision(position, source, roles)


def _check_fingerprints(whole: Sequence[Report]) -> None:
    first = whole[0]
    known = dict(first.fingerprints)
    for other in whole[1:]:
        for tensor, checksum in other.fingerprints:
            if known.get(tensor, checksum) != checksum:
                raise Inconsistent(
                    f"members {first.member} and {other.member} are both at position "
                    f"{first.position}, but {tensor} differs between them"
                )


def _named(members: Sequence[int]) -> str:
    numbers = ", ".join(map(str, members))
    return f"member {numbers} is" if len(members) == 1 else f"members {numbers} are"
