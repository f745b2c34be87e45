"""Where a benchmark's figures go: a file of JSON, which later runs add to, and the page of Markdown
that is made from it."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import machine


def end_in_order() -> None:
    """When the program is interrupted: what it has started is ended on the way out."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit("interrupted"))


class Record:
    """`results` is what is known so far, and on which machine."""

    def __init__(
        self, output: Path, figures: str, packages: Sequence[str] = machine.PACKAGES
    ) -> None:
        self.folder = output
        self._file = output / "data" / figures
        for folder in ("data", "notes"):
            (output / folder).mkdir(parents=True, exist_ok=True)
        self.results: dict[str, Any] = (
            json.loads(self._file.read_text()) if self._file.exists() else {}
        )
        self.results |= {"machine": machine.features(), "versions": machine.versions(packages)}

    def save(self) -> None:
        self._file.write_text(json.dumps(self.results, indent=1, ensure_ascii=False) + "\n")

    def publish(self, page: str, text: str) -> None:
        self.save()
        (self.folder / page).write_text(text)
        print(f"written: {self.folder / page}")
