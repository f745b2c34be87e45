"""Where a job's output goes, with the launcher's own lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

from hvdlite.launch import output
from hvdlite.launch.monitor import Outlets, screen
from hvdlite.launch.monitor.screen import Screen
from hvdlite.launch.observers import Contained, JobObserver, Observers


class Console:
    """The targets of output: the launcher's own stdout and stderr, or replacements for them.
    `name`: before its own lines."""

    def __init__(
        self,
        stdout: output.Writer,
        stderr: output.Writer,
        timestamps: bool,
        obey_returns: tuple[bool, bool] = (True, True),
        name: str = "hvdliterun",
    ) -> None:
        self._writers = stdout, stderr
        self._name = name
        self._told: set[str] = set()  # streams whose losses have been reported
        self._screen = stderr if isinstance(stderr, Screen) else None
        self.stdout = output.Sink(stdout, timestamps, obey_returns[0])
        self.stderr = output.Sink(stderr, timestamps, obey_returns[1])

    def say(self, text: str) -> None:
        """Prints one or several lines of the launcher itself."""
        for line in text.splitlines():
            self.stderr.say(f"{self._name}: {line.removeprefix('hvdliterun: ')}")

    def show_phases(self, phases: Mapping[str, str]) -> None:
        """Shows on a terminal how far each host is, until the next call. Without any phases, the
        display disappears."""
        if self._screen is not None:
            if phases:
                self._screen.show(screen.progress(phases, self._screen.size()[0] - 1))
            else:
                self._screen.end()

    def losses(self) -> list[str]:
        """Returns a sentence for each of its streams that can no longer be written to. Reports each
        once."""
        told = []
        for name, writer in zip(("stdout", "stderr"), self._writers, strict=True):
            if writer.failure is not None and name not in self._told:
                self._told.add(name)
                told.append(f"the end of the ranks' {name} is lost: {_reason(writer.failure)}.")
        return told

    def flush(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Waits as long as the reader takes, like every program, or until stop()."""
        for sink in (self.stdout, self.stderr):
            while not sink.wait_flushed(1.0) and not stop():
                pass

    def close(self) -> None:
        """Ends its threads. They still write what is left."""
        for writer in self._writers:
            writer.close()


@contextlib.contextmanager
def of_a_module(
    name: str,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
    timestamps: bool = False,
) -> Iterator[Console]:
    """Prints to these streams, or to the program's own, until the end of the block."""
    out, errors = output.TextWriter(stdout or sys.stdout), output.TextWriter(stderr or sys.stderr)
    console = Console(out, errors, timestamps, name=name)
    with contextlib.closing(console):
        try:
            yield console
        finally:
            console.flush()


def _reason(error: Exception) -> str:
    if isinstance(error, BrokenPipeError):
        return "its reader has closed it"
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else repr(error)


def of_the_command_line(
    hosts: Mapping[int, str],
    phases: bool,
    ranks: bool,
    timestamps: bool,
    outlets: Outlets,
    command: Sequence[str] = (),
) -> tuple[Console, JobObserver]:
    """Returns the launcher's stdout and stderr, with the display of ranks. `hosts`: the host of
    each rank.

    `phases`: show_phases() will be called. `ranks`: show the ranks. `outlets`: for other programs
    and the report, which names `command`.
    """
    terminals = os.isatty(1), os.isatty(2)
    terminal = Screen(2) if (phases or ranks) and screen.possible(os.environ) else None
    stdout = terminal if terminal and os.isatty(1) else output.Writer(1)
    console = Console(stdout, terminal or output.Writer(2), timestamps, terminals)
    if not ranks and not outlets:
        return console, JobObserver()
    from hvdlite.launch.monitor import board, metrics, view

    shown = board.Board(hosts)
    displays: list[view.Display] = []
    if ranks and terminal is None:
        displays.append(view.LinesDisplay(shown, console.say))
    elif ranks and terminal is not None:
        displays.append(view.TableDisplay(shown, terminal, colours="NO_COLOR" not in os.environ))
    if outlets.port is not None:
        displays.append(metrics.MetricsPage(shown, outlets, console.say))
    if outlets.file is not None:
        displays.append(metrics.MetricsFile(shown, outlets.file, console.say))
    if outlets.report is None:
        return console, _contained(view.Monitor(shown, *displays), console)
    from hvdlite.launch.monitor import report

    written = report.ReportFile(outlets.report, command, console.say)
    displays.append(report.ReportSampler(shown, written))
    monitor = _contained(view.Monitor(shown, *displays), console)
    return console, Observers(
        monitor, Contained(report.ReportWriter(written), "--report", console.say)
    )


def _contained(monitor: JobObserver, console: Console) -> JobObserver:
    return Contained(monitor, "the display of the ranks' reports", console.say)
