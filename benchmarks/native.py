"""The small C++ programs in cpp/ that accompany a measurement: compiled when they are needed, asked
line by line."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path


def compiler() -> str | None:
    return shutil.which("g++") or shutil.which("c++")


def build(name: str, folder: str, *flags: str) -> str:
    """The path of what has been made from cpp/NAME.cc; needs a compiler."""
    source = Path(__file__).parent / "cpp" / f"{name}.cc"
    command = [compiler() or "g++", "-O3", "-pthread", str(source), *flags]
    subprocess.run([*command, "-o", f"{folder}/{name}"], check=True)
    return f"{folder}/{name}"


class Program:
    """A running program that answers each line with a line. None of its answers without a
    compiler."""

    def __init__(self, name: str, *arguments: str) -> None:
        self._process: subprocess.Popen[str] | None = None
        if compiler() is None:
            return
        self._folder = tempfile.TemporaryDirectory()
        program = build(name, self._folder.name)
        self._process = subprocess.Popen(
            [program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, line: str = "") -> str | None:
        if self._process is None:
            return None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._folder.cleanup()
