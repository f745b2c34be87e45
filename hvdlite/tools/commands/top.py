"""`hvdlite top`: what the ranks of a job do, from another terminal."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hvdlite.launch.attach.client import FoundJob, LauncherConnection, Message, jobs_at, jobs_here
from hvdlite.launch.monitor.screen import Screen
from hvdlite.tools.commands import top_view
from hvdlite.tools.commands.ranks_here import stores_here
from hvdlite.tools.commands.top_view import View

# With --once: ranks that have not reported by then are shown without numbers.
_ONCE_SECONDS = 4.0
_GLANCE_SECONDS = 1.0


class CannotShow(Exception):
    """The text says why."""


def run(arguments: argparse.Namespace) -> int:
    """Runs the command and returns the exit status."""
    try:
        drawn = not (arguments.once or arguments.json or arguments.dump)
        if drawn:
            _check_terminal(os.environ)
        jobs = each_once(jobs_here(os.environ), jobs_at(stores_here()))
        asks = drawn and len(jobs) > 1 and arguments.pid is None and os.isatty(0)
        job = _asked(jobs) if asks else choose(jobs, arguments.pid)
        with _connected(job) as connection:
            if arguments.dump:
                _dump(connection, job)
            elif arguments.once:
                _once(connection, job, arguments.json, View(arguments.sort))
            elif arguments.json:
                for frame in _frames(connection):
                    print(json.dumps(frame), flush=True)
            else:
                _watch(connection, job, View(arguments.sort))
    except CannotShow as why:
        print(f"hvdlite top: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def each_once(here: Sequence[FoundJob], with_ranks_here: Sequence[FoundJob]) -> Sequence[FoundJob]:
    """Each job once: those whose launcher runs here, and those that have ranks here. Pure."""
    known = {_name(job) for job in here}
    return [
        *here,
        *{_name(job): job for job in with_ranks_here if _name(job) not in known}.values(),
    ]


def _name(job: FoundJob) -> tuple[int, float]:
    return job.pid, job.about["began"] if job.about else 0.0


def choose(jobs: Sequence[FoundJob], pid: int | None) -> FoundJob:
    """The job that is meant: that of the command line, or the only one. Pure."""
    if not jobs:
        raise CannotShow("no job of this user has its hvdliterun or a rank on this host.")
    jobs = _newest_first(jobs)
    chosen = [job for job in jobs if pid in (None, job.pid)]
    if chosen and (len(chosen) == 1 or pid is not None):
        return chosen[0]
    lines = "\n".join(top_view.listing(jobs))
    if not chosen:
        raise CannotShow(f"process {pid} is no hvdliterun of this user. There are:\n{lines}")
    raise CannotShow(
        f"several jobs run here. `hvdlite top {chosen[0].pid}` shows the first.\n{lines}"
    )


def _newest_first(jobs: Sequence[FoundJob]) -> list[FoundJob]:
    return sorted(jobs, key=lambda job: _name(job)[1], reverse=True)


def _asked(jobs: Sequence[FoundJob]) -> FoundJob:
    """The job that the user chooses from a list on the terminal, by its number or its process."""
    jobs = _newest_first(jobs)
    print("several jobs run here:")
    for number, line in enumerate(top_view.listing(jobs), 1):
        print(f"{number:>3} {line}")
    while True:
        try:
            answer = input(f"which one? 1 to {len(jobs)} [1]: ")
        except EOFError:
            print()
            raise CannotShow(
                f"no job was chosen. `hvdlite top {jobs[0].pid}` shows the first."
            ) from None
        job = answered(jobs, answer)
        if job is not None:
            return job


def answered(jobs: Sequence[FoundJob], answer: str) -> FoundJob | None:
    """The job of an answer: its place in the list, or its process; the first for none. Pure."""
    answer = answer.strip() or "1"
    named = {str(job.pid): job for job in jobs}
    named |= {str(number): job for number, job in enumerate(jobs, 1)}
    return named.get(answer)


def _check_terminal(environ: Mapping[str, str]) -> None:
    why = ""
    if not os.isatty(1):
        why = "stdout is not a terminal"
    elif environ.get("TERM", "") in ("", "dumb"):
        why = f"the terminal cannot move its cursor (TERM={environ.get('TERM', '')})"
    if why:
        raise CannotShow(f"{why}: --once prints one table, and --json prints lines.")


@contextlib.contextmanager
def _connected(job: FoundJob) -> Iterator[LauncherConnection]:
    if job.about is None:
        raise CannotShow(
            f"hvdliterun (process {job.pid}) does not answer: it is stopped, or it still reaches "
            "its hosts."
        )
    gone = f"the job has ended, or hvdliterun ({job.pid}) was killed."
    try:
        connection = job.connect()
    except OSError:
        raise CannotShow(gone) from None
    with connection:
        try:
            yield connection
        except EOFError:
            raise CannotShow(gone) from None


def _frames(connection: LauncherConnection) -> Iterator[Message]:
    """Yields what the launcher sends until the job has ended."""
    connection.ask("ranks")
    while True:
        for message in connection.receive(_GLANCE_SECONDS):
            if message.get("ended"):
                return
            if "rows" in message:
                yield message


def _once(connection: LauncherConnection, job: FoundJob, as_json: bool, choice: View) -> None:
    assert job.about is not None
    shown: Message | None = None
    deadline = time.monotonic() + _ONCE_SECONDS
    for frame in _frames(connection):
        shown = frame
        if frame["complete"] or time.monotonic() > deadline:
            break
    if shown is None:
        raise CannotShow("the job has ended.")
    if as_json:
        print(json.dumps({**job.about, **shown}))
        return
    lines = top_view.title(job.about, shown, time.time())
    width = os.get_terminal_size(1).columns if os.isatty(1) else 1000
    print("\n".join([*lines, *top_view.ranks(shown, choice, width, 1 << 30, _colours())]))


def _dump(connection: LauncherConnection, job: FoundJob) -> None:
    connection.ask("dump")
    answer = connection.wait()
    if answer is None:
        raise CannotShow(f"hvdliterun ({job.pid}) does not answer.")
    print(top_view.dumped(answer))


def _colours() -> bool:
    return os.isatty(1) and "NO_COLOR" not in os.environ


def _watch(connection: LauncherConnection, job: FoundJob, choice: View) -> None:
    screen = Screen(1)
    try:
        with _keys(0) as keyboard:
            ended = _draw(connection, job, choice, screen, keyboard)
        screen.end()
        if ended:
            screen.put(b"hvdlite top: the job has ended.\n")
    finally:
        screen.end()
        screen.wait_flushed(1.0)
        screen.close()


def _draw(
    connection: LauncherConnection, job: FoundJob, choice: View, screen: Screen, keyboard: list[int]
) -> bool:
    """Draws until a key or the end of the job. Returns whether the job has ended."""
    assert job.about is not None
    frame: dict[str, Any] | None = None
    heard = time.monotonic()
    connection.ask("ranks")
    dumps = 0
    while not choice.over and screen.failure is None:
        launcher = connection.fileno()
        ready, _, _ = select.select([launcher, *keyboard], [], [], _GLANCE_SECONDS)
        if launcher in ready:
            for message in connection.receive(0):
                heard = time.monotonic()
                if message.get("ended"):
                    return True
                if "dumps" in message:
                    choice = replace(choice, said=top_view.dumped(message))
                if "rows" in message and not (choice.paused and frame):
                    frame = dict(message)
        for descriptor in (each for each in keyboard if each in ready):
            pressed = _read(descriptor)
            if not pressed:  # the terminal has gone
                return False
            for key in pressed:
                choice = choice.press(key)
            if choice.dumps > dumps:
                dumps = choice.dumps
                connection.ask("dump")
        if frame is not None:
            silent = time.monotonic() - heard
            size = screen.size()
            screen.show(
                top_view.screen(job.about, frame, choice, size, time.time(), silent, _colours())
            )
    return False


def _read(descriptor: int) -> str:
    try:
        return os.read(descriptor, 64).decode(errors="replace")
    except OSError:
        return ""


@contextlib.contextmanager
def _keys(descriptor: int) -> Iterator[list[int]]:
    """Reads keys without Return and without an echo, if stdin is a terminal. It is restored in the
    end, also after SIGTERM."""
    if not os.isatty(descriptor):
        yield []
        return
    before = termios.tcgetattr(descriptor)
    handler = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        tty.setcbreak(descriptor)
        yield [descriptor]
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)
