"""A launcher on a terminal, and what a person sees there."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from launched import Job
from machine import within


class Terminal:
    """What a terminal shows after these bytes: just enough of one."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        # the beginning of a sequence: where much waits to be read, a read ends anywhere
        self._rest = ""

    def feed(self, data: bytes) -> None:
        text = self._rest + self._decoder.decode(data)
        self._rest = ""
        while text:
            if text.startswith("\x1b"):
                sequence = re.match(r"\x1b\[([^A-Za-z]*)([A-Za-z])", text)
                if sequence is None:
                    self._rest = text
                    return
                number, command = sequence.groups()
                text = text[sequence.end() :]
                if command == "A":
                    self.row -= int(number)
                elif command == "J":
                    del self.lines[self.row + 1 :]
                    self.lines[self.row] = self.lines[self.row][: self.column]
                continue
            character, text = text[0], text[1:]
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row, self.column = self.row + 1, 0  # the terminal's driver makes \r\n of it
                self.lines += [""] * (self.row + 1 - len(self.lines))
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
                self.column += 1


class Watched:
    """hvdliterun on a terminal of its own. `keys`: it reads what press() sends."""

    def __init__(
        self,
        job: Job,
        *arguments: str,
        stdout: int | None = None,
        keys: bool = False,
        **extra: str,
    ) -> None:
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        environment = {
            k: v for k, v in job.environment(**{"TERM": "xterm"} | extra).items() if k != "NO_COLOR"
        }
        self.process = subprocess.Popen(
            [*job.prefix, sys.executable, *job.launcher, *arguments],
            stdin=slave if keys else subprocess.DEVNULL,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            cwd=job.directory,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        os.close(slave)
        job.started.append(self.process)
        self.terminal = Terminal()

    def watch(self, pattern: str = "$never", seconds: float = 30) -> str:
        """Until it ends, or the pattern is on the terminal; what is to be seen then."""
        deadline = time.monotonic() + within(seconds)
        while self._take(deadline):
            if re.search(pattern, self.seen()):
                return self.seen()
        assert self.process.poll() is not None, (
            f"no {pattern!r} within {within(seconds):g} s:\n{self.seen()}"
        )
        return self.seen()

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def watch_for(self, seconds: float) -> None:
        """What comes in this time."""
        deadline = time.monotonic() + seconds
        while self._take(deadline):
            pass

    def _take(self, deadline: float) -> bool:
        """What comes next; False: it has ended, or it is too late."""
        if not select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            self.terminal.feed(os.read(self.master, 65536))
        except OSError:  # the other side was closed
            self.process.wait()
            return False
        return True

    def seen(self) -> str:
        return "\n".join(line.rstrip() for line in self.terminal.lines).rstrip()
