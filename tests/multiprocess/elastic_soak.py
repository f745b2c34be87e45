"""An elastic job that something happens to every few seconds, and what must be true in the end.

    scripts/soak-elastic [--seconds 1800] [--seed N]

Members are killed, stopped and asked to end, slots come and go, and newcomers crash.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "conformance")]

import numpy as np  # noqa: E402
from launched import PATIENT, Job  # noqa: E402
from waiting import wait_until  # noqa: E402

from hvdlite.data.order import shuffled  # noqa: E402

PROGRAM = str(Path(__file__).with_name("elastic_soak_program.py"))
LENGTH = 1000
FIRST, MOST = 3, 5  # slots
HEARTBEAT_SECONDS = 2
MOST_GROWTH_KIB = 16 << 10
LOOKS = 50
ENOUGH_GENERATIONS = 4  # of a member, for a look at its memory
Note = dict[str, Any]


@dataclass
class Generation:
    number: int
    size: int
    notes: list[Note] = field(default_factory=list)

    @property
    def pids(self) -> list[int]:
        """In the order of ranks."""
        return [note["pid"] for note in sorted(self.notes, key=lambda note: note["rank"])]

    @property
    def up(self) -> float:
        return max(float(note["at"]) for note in self.notes)


class Soak:
    def __init__(self, job: Job, seed: int, say: Callable[[str], None]) -> None:
        self.times: dict[str, list[float]] = {}
        self._job = job
        self._chance = random.Random(seed)
        self._say = say
        self._slots = FIRST
        self._launcher: list[list[int]] = []  # descriptors and threads, at the start and at the end
        self._crashes = 0
        self._write_hosts()
        self._process = self._start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    # ---- the job

    def _start(self) -> subprocess.Popen[bytes]:
        return self._job.start(
            "-np", str(FIRST), "--min-np", "1", "--leave-seconds", PATIENT,
            "--blacklist-cooldown-range", "0.05", "0.1", "--host-discovery-script", "cat hosts",
            "--verbose", sys.executable, PROGRAM, str(LENGTH),
            HVDLITE_HEARTBEAT_SECONDS=str(HEARTBEAT_SECONDS),
        )  # fmt: skip

    def _read(self) -> None:
        """What the launcher says, with times, so that its pipe is never full."""
        assert self._process.stderr is not None
        with (self._job.directory / "said").open("w") as said:
            for line in self._process.stderr:
                said.write(f"{time.monotonic():.3f} {line.decode()}")
                said.flush()

    def _write_hosts(self) -> None:
        self._job.name_hosts(f"localhost:{self._slots}")

    def _notes(self) -> list[Note]:
        path = self._job.directory / "notes"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def _generation(self) -> Generation | None:
        """The latest one, once all its ranks have completed an operation."""
        assert self._process.poll() is None, f"the job has ended: {self._said()}"
        notes = self._notes()
        if not notes:
            return None
        number = max(note["generation"] for note in notes)
        own = [note for note in notes if note["generation"] == number]
        return Generation(number, own[0]["size"], own) if len(own) == own[0]["size"] else None

    def _next(self, fits: Callable[[Generation], bool], what: str) -> Generation:
        def look() -> Generation | None:
            found = self._generation()
            return found if found is not None and fits(found) else None

        found = wait_until(look, 60, lambda: f"{what}: {self._generation()}")
        assert found is not None
        return found

    # ---- what happens

    def go_on(self, seconds: float, pause: tuple[float, float]) -> None:
        deadline = time.monotonic() + seconds
        self._next(lambda g: g.size == FIRST, "the first generation")
        self._look_at_the_launcher()
        while time.monotonic() < deadline:
            time.sleep(self._chance.uniform(*pause))  # span: faults are apart
            generation = self._next(lambda g: True, "a generation")
            kinds = [self._slots_change, self._crash]
            if generation.size > 1:
                kinds += [self._kill, self._kill, self._kill_two, self._terminate, self._stop]
            self._chance.choice(kinds)(generation)
        self._slots = FIRST
        self._write_hosts()
        self._next(lambda g: g.size == FIRST, "the last generation")
        self._look_at_the_launcher()
        (self._job.directory / "enough").touch()

    def _victims(self, generation: Generation, number: int) -> list[int]:
        """A quarter of the single deaths are rank 0's."""
        if number == 1 and self._chance.random() < 0.25:
            return generation.pids[:1]
        number = min(number, generation.size - 1)
        return self._chance.sample(generation.pids, number)

    def _kill(self, generation: Generation) -> None:
        self._end("kill", generation, self._victims(generation, 1), signal.SIGKILL)

    def _kill_two(self, generation: Generation) -> None:
        self._end("two kills", generation, self._victims(generation, 2), signal.SIGKILL)

    def _terminate(self, generation: Generation) -> None:
        self._end("SIGTERM", generation, self._victims(generation, 1), signal.SIGTERM)

    def _stop(self, generation: Generation) -> None:
        self._end("SIGSTOP", generation, self._victims(generation, 1), signal.SIGSTOP)

    def _crash(self, generation: Generation) -> None:
        """The next newcomer ends while it starts."""
        (self._job.directory / f"crash.{self._crashes}").touch()
        self._crashes += 1
        if generation.size > 1:
            self._kill(generation)

    def _end(self, kind: str, generation: Generation, pids: Sequence[int], number: int) -> None:
        began = time.monotonic()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        found = self._next(lambda g: not set(pids) & set(g.pids), f"{kind} of {pids}")
        self.times.setdefault(kind, []).append(found.up - began)
        self._say(f"{kind}: {generation.size} ranks, {found.size} after {found.up - began:.3f} s")

    def _slots_change(self, generation: Generation) -> None:
        new = self._chance.choice([n for n in range(1, MOST + 1) if n != self._slots])
        self._slots = new
        self._write_hosts()
        found = self._next(lambda g: g.size == new, f"{new} slots")
        self._say(f"slots: {generation.size} ranks, now {found.size}")

    def _look_at_the_launcher(self) -> None:
        """Descriptors and threads. It has some more while a newcomer or the hosts' script starts,
        or while what has died is not reaped yet."""
        process = Path(f"/proc/{self._process.pid}")
        looks = []
        for _ in range(LOOKS):
            looks.append([len(list((process / what).iterdir())) for what in ("fd", "task")])
            time.sleep(0.01)  # poll
        self._launcher.append(min(looks))

    def _said(self) -> str:
        return (self._job.directory / "said").read_text()[-3000:]

    # ---- what must be true

    def check(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.returncode == 0, self._said()
        assert self._job.wait_until_gone(5.0) == []
        self._check_data()
        self._check_members()
        self._check_launcher()

    def _check_data(self) -> None:
        ends = [json.loads(path.read_text()) for path in self._job.directory.glob("end.*")]
        said = ends[0]
        assert len(ends) == said["size"] and all(end == said for end in ends)
        order = shuffled(LENGTH, 3, said["epoch"])(np.arange(said["sample"], dtype=np.int64))
        expected = np.full(LENGTH, said["epoch"])
        expected[order] += 1
        assert said["counts"] == expected.tolist(), "samples are lost or repeated"
        self._say(f"{said['steps']} steps, {said['epoch']} epochs: each sample once in each")

    def _check_members(self) -> None:
        """What a member has depends on the size of its generation, not on its age.

        One member of each generation has links with all others. So a late note is compared with
        all notes of the first half.
        """
        everything = sorted(self._notes(), key=lambda note: note["at"])
        first_half = everything[: len(everything) // 2]
        for notes in self._by_member():
            early, late = notes[1], notes[-1]
            grown = late["kib"] - early["kib"]
            assert grown < MOST_GROWTH_KIB, f"a member has grown by {grown} KiB: {early}, {late}"
            same = [note for note in first_half if note["size"] == late["size"]]
            for what in ("descriptors", "threads"):
                most = max((note[what] for note in same), default=late[what])
                assert late[what] <= most, f"{what}: {same}, {late}"

    def _by_member(self) -> Iterator[list[Note]]:
        by_pid: dict[int, list[Note]] = {}
        for note in self._notes():
            by_pid.setdefault(note["pid"], []).append(note)
        return (notes for notes in by_pid.values() if len(notes) >= ENOUGH_GENERATIONS)

    def _check_launcher(self) -> None:
        first, last = self._launcher
        assert last[0] <= first[0] and last[1] <= first[1], self._launcher

    def summary(self) -> str:
        head = f"{'':10} {'number':>6} {'p50':>8} {'p95':>8} {'max':>8}"
        lines = [f"{head}   s to the next operation"]
        for kind, seconds in sorted(self.times.items()):
            cells = [_quantile(seconds, share) for share in (0.5, 0.95, 1.0)]
            shown = " ".join(f"{cell:8.3f}" for cell in cells)
            lines.append(f"{kind:10} {len(seconds):6} {shown}")
        return "\n".join(lines)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long (default 1800)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="hvd-soak-")
    print(f"seed {given.seed}; {folder} is left behind if the soak fails", flush=True)
    job = Job(Path(folder))
    try:
        soak = Soak(job, given.seed, lambda text: print(text, flush=True))
        soak.go_on(given.seconds, pause=(2.0, 10.0))
        soak.check()
    finally:
        for process in job.started:
            process.send_signal(signal.SIGINT)
            process.wait()
    print(soak.summary())
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
