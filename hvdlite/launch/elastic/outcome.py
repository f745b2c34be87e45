"""When an elastic job is over, and what its status is. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from hvdlite.launch.elastic.crew import Crew, Member, Stage
from hvdlite.launch.elastic.events import End
from hvdlite.launch.elastic.faults import Failure, Fault

ASKED_TO_END = 128 + signal.SIGTERM
# Programs and people look for Horovod's words.
RESET_LIMIT_EXCEEDED = (
    "Horovod was shutdown because number of resets during elastic job exceeded limit: {}"
)


@dataclass
class Outcome:
    """What has happened to the members so far."""

    rolled: bool = False  # there has been a generation
    trained: bool = False  # a member has had the state and called its function
    returned: bool = False  # a member's function has: no newcomer is started any more
    succeeded: bool = False  # a member has ended well
    # Those that have ended with 0 before `init()`, while no other member was there.
    early: list[tuple[Member, Failure]] = field(default_factory=list)
    failed_early: Failure | None = None  # the first that has failed there
    failed_later: Failure | None = None  # the first that has failed behind its function's return
    failures: list[Failure] = field(default_factory=list)  # that no roll has made good
    stop: int | None = None  # the status with which the launcher ends when all have left

    @property
    def winds_down(self) -> bool:
        """No newcomer is started or admitted, and there is no minimum any more."""
        return self.returned or bool(self.early) or self.stop is not None

    def cause(self) -> Failure | None:
        """Of those that ended the last generation, the first that is no consequence."""
        causes = [failure for failure in self.failures if not failure.is_consequence]
        return next(iter([*causes, *self.failures]), None)

    def end(self, crew: Crew) -> End | None:
        """The job's end, if it has come."""
        if crew.of(Stage.RETURNED, Stage.LEFT):
            return None
        serving = crew.of(Stage.SERVING)
        waiting = serving if self.rolled else crew.of(Stage.COLD, Stage.WARM)
        if self.succeeded and not waiting:
            return self._finished()
        if self.early and not crew.newcomers() and not serving:
            failed = self.failed_early
            return End(failed.status or 1, failed.sentence()) if failed else End(0)
        if self.stop is not None and not serving:
            return self.stopped()
        if not self.trained or any(each.has_state or each.report is None for each in serving):
            return None
        return self._finished() if self.succeeded else self._no_survivor()

    def stopped(self) -> End:
        return End(self.stop or 0, "the job was asked to end, and its members have left.")

    def _finished(self) -> End:
        if self.failed_later is not None:
            return End(self.failed_later.status, self.failed_later.sentence())
        return End(0)

    def _no_survivor(self) -> End:
        cause = self.cause()
        if self.failed_later is not None:
            return self._finished()
        if cause is None:
            return End(ASKED_TO_END, "all members were asked to leave, and have left.")
        return End(
            cause.status or 1,
            f"{cause.sentence()} No member is left that has the state of the training.",
        )


def repeated(fault: Fault) -> End:
    """The program's own fault."""
    return End(
        fault.failure.status or 1,
        f"{fault.failure.sentence()} That is the program's fault, or its data's: members have "
        f"ended so {fault.times} times in a row at one position.",
    )


def reset_limit(limit: int) -> End:
    return End(1, RESET_LIMIT_EXCEEDED.format(limit))


def too_few(there: int, least: int, slots: int, seconds: float) -> End:
    return End(
        1,
        f"for {seconds:g} s there were only {there} of the {least} processes that the job needs; "
        f"its hosts have {slots} slots. Fewer may do with --min-np, and --elastic-timeout is how "
        "long the job waits.",
    )
