"""Decides whose failure has ended a job, and what the launcher says about it. Pure: times are
arguments."""

from __future__ import annotations

import difflib
import errno
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hvdlite.launch.last_words import shown
from hvdlite.launch.spawn.events import AllGone, RankEnded, RankStartFailed, signal_name

# A rank that fails because a peer was lost may exit before that peer, whose interpreter takes its
# time to end. The launcher waits this long for the cause before it takes the consequence for it.
CAUSE_SECONDS = 0.5
# The other ranks get this long to raise their own error, to run the program's `except` and
# `finally`, and to end.
SURVIVOR_SECONDS = 1.0
# A rank that others name as the cause has told them so, and ends in its own time: torch's loaders
# of data end their processes first.
BLAMED_SECONDS = 10.0
_CONSEQUENCES = (b"PeerLostError", b"ShutDownError")
_BLAMED = re.compile(rb"PeerLostError: rank (\d+) failed: ")
# A link whose bytes nothing acknowledges (csrc/engine/observe/vigil.cc).
_SILENT_LINK = re.compile(rb"rank (\d+) \([^)]*\) with rank (\d+) \([^)]*\) is interrupted: ")
# ssh's exit status when the connection fails.
_CONNECTION_LOST = 255


# What an exception says, and what hvdliterun's last line adds.
_HINTS = (
    (
        r"ModuleNotFoundError: No module named 'horovod(\.[\w.]+)?'",
        "This program was written for Horovod: hvdliterun --horovod-compat runs it unchanged.",
    ),
    (
        r"module 'torch\._C' has no attribute '_cuda_\w+'|Torch not compiled with CUDA enabled",
        "This torch was built without CUDA: use the GPU only `if torch.cuda.is_available()`, or "
        "install a torch with CUDA.",
    ),
    (
        r"environment variable (RANK|WORLD_SIZE|MASTER_\w+) expected, but not set",
        "hvdliterun --torch-distributed sets torchrun's variables. In an elastic job, call "
        "hvdlite.torch.distributed.init() in the place of init_process_group().",
    ),
)
_COMMANDS = ("python", "python3", "bash")


def with_hint(sentence: str) -> str:
    """Returns the launcher's last line with the hint that there is for it."""
    found = [hint for pattern, hint in _HINTS if re.search(pattern, sentence)]
    return " ".join([sentence, *found[:1]])


def command_meant(word: str) -> str:
    """Returns the command that a misspelt one is similar to; empty: there is none."""
    others = [each for each in _COMMANDS if each != word]
    return next(iter(difflib.get_close_matches(word, others, 1, 0.75)), "")


def is_consequence(last_words: bytes) -> bool:
    """Whether a rank with these last words has failed because another one was lost."""
    return any(name in last_words for name in _CONSEQUENCES)


def ended_how(number: int, otherwise: str, words: str = "") -> str:
    """Returns how a process has ended: the signal, or `otherwise` with its last words. What it had
    said before a signal came explains nothing."""
    if not number:
        return f"{otherwise}: {words}" if words else otherwise
    how = f"was killed by {signal_name(number)}"
    if number == signal.SIGKILL:
        how += " (sent by a user or a program, or by the kernel when memory ran out)"
    return how


@dataclass(frozen=True)
class Failure:
    ended: RankEnded
    last_words: bytes

    @property
    def order(self) -> tuple[bool, bool]:
        """Sorts causes before consequences and, among ranks that died at the same time, crashes
        before exits."""
        return not self.ended.signal and is_consequence(self.last_words), not self.ended.signal


@dataclass
class Verdict:
    """Decides whose failure ended the job. Pure: times are arguments."""

    hosts: Mapping[int, str]
    failures: list[Failure] = field(default_factory=list)
    start_failure: RankStartFailed | None = None
    lost: tuple[str, str] | None = None  # the first host that was lost, and why
    # Hosts that were asked to end and did not answer; whether their ranks were killed without them.
    silent: dict[str, bool] = field(default_factory=dict)
    interrupted: int = 0
    gone: AllGone | None = None
    decided: bool = False
    has_met: bool = True  # whether any rank was in hvd.init()
    # Whether ranks have met, so the others hear of a loss.
    hearing: Callable[[], bool] = lambda: False
    # Says to ranks that wait in hvd.init(), or call it later, which rank is lost and why.
    call_off: Callable[[int, str], None] = lambda rank, why: None
    hurried: bool = False  # a signal has come after the decision
    reported: set[int] = field(default_factory=set)  # ranks of whose end their host has told
    _first_failure: float = 0.0
    _decided_at: float = 0.0
    _asked: bool = False  # decide() has returned True

    def ended(self, ended: RankEnded, last_words: bytes, now: float) -> None:
        # The launcher ended what ends after the decision; the agent killed what ends on a lost
        # host.
        lost = self.lost is not None and self.hosts[ended.rank] == self.lost[0]
        if not lost:
            self.reported.add(ended.rank)
        if ended.status and not self.decided and not lost:
            if not self.failures:
                self._first_failure = now
            self.failures.append(failure := Failure(ended, last_words))
            self.call_off(ended.rank, f"{self._how(failure)}. hvd.init() needs all ranks.")

    def lost_host(self, host: str, reason: str) -> None:
        if not self.decided and self.lost is None:
            self.lost = host, reason

    def unanswered(self, host: str, killed: bool) -> None:
        """A host was asked to end its ranks and has not answered. They were `killed` without it, or
        may still run."""
        self.silent[host] = killed

    def decide(self, now: float) -> bool:
        """Returns True once, when the other ranks have to be ended. Ask after each batch of
        events."""
        if self._asked or not (
            self.failures or self.start_failure or self.lost or self.interrupted
        ):
            return False
        if not self.decided:
            if not (self.interrupted or self.lost) and not self._cause_is_known(now):
                return False
            self.decided = True
            self._decided_at = now
        if self._survivors_may_hear() and now - self._decided_at < SURVIVOR_SECONDS:
            return False
        self._asked = True
        return True

    def _cause_is_known(self, now: float) -> bool:
        """Whether the failure that was the cause is known, or does not come any more."""
        if not self.failures or not all(failure.order[0] for failure in self.failures):
            return True
        named = (_BLAMED.search(failure.last_words) for failure in self.failures)
        blamed = {int(found[1]) for found in named if found}
        waits = BLAMED_SECONDS if blamed & self.hosts.keys() - self.reported else CAUSE_SECONDS
        return now - self._first_failure >= waits

    def _survivors_may_hear(self) -> bool:
        ended_by_us = self.interrupted or self.hurried or self.start_failure is not None
        return not ended_by_us and len(self.hosts) > 1 and self.hearing()

    def pending(self) -> bool:
        """Whether decide() has to be asked again soon even without an event."""
        return bool(self.failures or self.lost) and not self._asked

    def status(self) -> int:
        """The launcher's exit status."""
        if self._may_run():
            return _CONNECTION_LOST
        if self.interrupted:
            return 128 + self.interrupted
        if self.start_failure is not None:
            return 127 if self.start_failure.errno == errno.ENOENT else 126
        if self._lost_is_the_cause():
            return _CONNECTION_LOST
        if self.failures:
            return self._cause().ended.status
        return (
            1 if self.gone is not None and (self.gone.guardian_died or self.gone.resisting) else 0
        )

    def sentence(self, command: Sequence[str]) -> str:
        """The launcher's last line; empty when all went well."""
        parts = [part for part in (self._what(command), self._silence(), self._left()) if part]
        return f"hvdliterun: {' '.join(parts)}" if parts else ""

    def culprit(self) -> int | None:
        """Returns the rank whose failure ended the job, if there is one."""
        if (
            self.interrupted
            or self.start_failure is not None
            or self._lost_is_the_cause()
            or not self.failures
        ):
            return None
        return self._cause().ended.rank

    def _lost_is_the_cause(self) -> bool:
        return self.lost is not None and all(failure.order[0] for failure in self.failures)

    def _cause(self) -> Failure:
        return min(self.failures, key=lambda failure: failure.order)

    def _what(self, command: Sequence[str]) -> str:
        if self.interrupted:
            others = "" if self._may_run() else "; all ranks were ended"
            return f"ended by {signal_name(self.interrupted)}{others}."
        if self.start_failure is not None:
            reason = os.strerror(self.start_failure.errno)
            meant = f"python {command[0]}" if command[0].endswith(".py") else ""
            if self.start_failure.errno == errno.ENOENT:
                meant = meant or command_meant(command[0])
            hint = f" Did you mean `{meant}`?" if meant else ""
            if self.start_failure.errno == errno.EAGAIN:
                hint = (
                    " Most likely there are as many processes as this user may have (`ulimit -u`)."
                )
            return f"cannot start {command[0]!r}: {reason}.{hint}"
        if self.gone is not None and self.gone.guardian_died:
            return "the guardian of the ranks was killed, so all ranks were ended."
        others = (
            "" if len(self.hosts) == 1 or self._may_run() else " All other ranks have ended, too."
        )
        if self.lost is not None and self._lost_is_the_cause():
            return f"host {self.lost[0]} was lost: {self.lost[1].removesuffix('.')}.{others}"
        if not self.failures:
            return self._who_never_met(command)
        failure = self._cause()
        more = "" if failure.ended.signal else self._silent_network(failure)
        return f"{self._how(failure)}{more}.{others}"

    def _how(self, failure: Failure) -> str:
        ended, words = failure.ended, shown(failure.last_words)
        how = ended_how(ended.signal, f"exited with code {ended.code}", words)
        return f"rank {ended.rank} on {self.hosts[ended.rank]} {how.removesuffix('.')}"

    def _silent_network(self, failure: Failure) -> str:
        """A part of a sentence if two hosts do not hear each other and the launcher hears both."""
        found = _SILENT_LINK.search(failure.last_words)
        if found is None:
            return ""
        ends = {int(found[1]), int(found[2])}
        hosts = sorted({self.hosts[rank] for rank in ends if rank in self.hosts})
        if not ends <= self.reported or len(hosts) < 2:
            return ""
        return (
            f". Both hosts are alive and answer hvdliterun: the network between {hosts[0]} and "
            f"{hosts[1]} is silent"
        )

    def _who_never_met(self, command: Sequence[str]) -> str:
        """Returns a sentence if the ranks never met: a training program that does not know the
        other ranks trains a model of its own. For `hostname` that is right."""
        is_python = os.path.basename(command[0]).startswith("python") or command[0].endswith(".py")
        if self.has_met or len(self.hosts) == 1 or not is_python:
            return ""
        return (
            f"no rank has called hvd.init(), so {len(self.hosts)} programs have run independently. "
            "--torch-distributed=hvdlite is for programs that read torchrun's variables."
        )

    def _may_run(self) -> list[str]:
        return [host for host, killed in self.silent.items() if not killed]

    def _silence(self) -> str:
        far = self._may_run()
        if far:
            which, whose = ("host", "its") if len(far) == 1 else ("hosts", "their")
            return (
                f"{which.capitalize()} {', '.join(far)} did not answer; {whose} ranks may "
                "still run."
            )
        if self.silent:
            return (
                f"The guardian ({', '.join(self.silent)}) did not answer: hvdliterun itself has "
                "killed the ranks that were left."
            )
        return ""

    def _left(self) -> str:
        if self.gone is None or not self.gone.resisting:
            return ""
        return f"{self.gone.resisting} processes do not react to SIGKILL (waiting for a disk?)."
