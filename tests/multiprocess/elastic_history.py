"""Random schedules of deaths, joins and leaves, and the accounting of the data behind them.

elastic_history_program.py is what the ranks run. Each rank logs every step that it begins. The
surviving history has each position once, as the last generation that has begun it.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launched import PATIENT, Job

from hvdlite.data.order import shuffled

PROGRAM = Path(__file__).with_name("elastic_history_program.py")
MOST = 5  # ranks

# hvdliterun whose hosts' script runs more often, and which waits less for newcomers together.
LAUNCHER = """
import sys
from hvdlite.launch import cli
from hvdlite.launch.elastic import host_discovery, state_machine
state_machine.TOGETHER_SECONDS = 0.05
host_discovery.DISCOVER_HOSTS_FREQUENCY_SECS = 0.05
sys.exit(cli.main())
"""


@dataclass(frozen=True)
class Event:
    """It happens when a generation of `size` ranks has made `after` steps."""

    kind: str  # "kill" or "slots"
    size: int
    after: int
    place: str = "begin"  # of the step, in which the first of `ranks` kills the others and itself
    ranks: tuple[int, ...] = ()
    slots: int = 0  # what the discovery script says from now on
    crashes: int = 0  # so many newcomers end while they start


@dataclass(frozen=True)
class Schedule:
    seed: int
    first: int  # slots
    end_of_step: str  # "step" or "commit"
    delay_microseconds: int
    cursor: dict[str, Any]
    events: tuple[Event, ...]
    says: str = ""  # what each rank prints to stderr in each generation

    def write(self, directory: Path) -> None:
        (directory / "schedule.json").write_text(json.dumps(asdict(self)))
        (directory / "hosts").write_text(f"localhost:{self.first}\n")


PLACES = ("begin", "between", "inside", "after")


def random_schedule(seed: int, events: int = 4) -> Schedule:
    chance = random.Random(seed)
    first = slots = chance.randint(2, MOST)
    found = []
    for _ in range(events):
        after = chance.randint(1, 12)
        if slots == 1 or chance.random() < 0.4:
            new = chance.choice([n for n in range(1, MOST + 1) if n != slots])
            crashes = chance.randint(0, 1) if new > slots else 0
            found.append(Event("slots", slots, after, slots=new, crashes=crashes))
            slots = new
        else:
            dead = chance.sample(range(slots), min(chance.choice((1, 1, 2)), slots - 1))
            place = chance.choice(PLACES)
            crashes = chance.choice((0, 0, 1))
            found.append(Event("kill", slots, after, place, tuple(dead), crashes=crashes))
    return Schedule(
        seed=seed,
        first=first,
        end_of_step=chance.choice(("step", "step", "commit")),
        delay_microseconds=chance.choice((0, 0, 2000)),
        cursor=_cursor(chance),
        events=tuple(found),
    )


# As a library prints it. The second is an exception that the program has caught.
WORDS = (
    "",
    "train.py:7: UserWarning: deprecated\n  return f(x)",
    'Traceback (most recent call last):\n  File "train.py", line 7, in f\nValueError: bad sample 7',
)


def storm(seed: int, events: int = 4) -> Schedule:
    """From one to all but one of the ranks are killed at once, somewhere in a step."""
    chance = random.Random(f"storm {seed}")
    first = chance.choice((2, 3, 4, 5, 5))
    end_of_step = chance.choice(("step", "commit"))
    places = [*PLACES, "entering", "submitted"] + ["copying"] * (end_of_step == "commit")
    found = []
    for _ in range(events):
        place = chance.choice(places)
        # At the same position again and again, as a program does that fails by its own fault.
        after = -1 if place == "entering" else chance.choice((0, 0, chance.randint(1, 12)))
        dead = chance.sample(range(first), chance.randint(1, first - 1))
        found.append(Event("kill", first, after, place, tuple(dead)))
    return Schedule(
        seed=seed,
        first=first,
        end_of_step=end_of_step,
        delay_microseconds=chance.choice((0, 0, 2000)),
        cursor=_cursor(chance),
        events=tuple(found),
        says=chance.choice(WORDS),
    )


def _cursor(chance: random.Random) -> dict[str, Any]:
    length, seed = chance.randint(40, 200), chance.randrange(1000)
    if chance.random() < 0.5:
        tail = chance.choice(("pad", "drop", "carry"))
        size: dict[str, Any] = {"batch_size": chance.randint(1, 8)}
    else:
        tail = chance.choice(("pad", "drop", "carry", "short"))
        size = {"global_batch": chance.randint(MOST, 40)}
    return {"length": length, "seed": seed, "tail": tail, **size}


def goes_by(schedule: Schedule, job: Job) -> None:
    """The job goes on as long as one rank has the state, no sample is lost or counted twice, and no
    process is left."""
    schedule.write(job.directory)
    job.launcher = [job.script(LAUNCHER, "launcher.py")]
    done = job.run(
        "-np", str(schedule.first), "--min-np", "1", "--leave-seconds", PATIENT,
        "--blacklist-cooldown-range", "0.01", "0.02", "--host-discovery-script", "cat hosts",
        sys.executable, str(PROGRAM),
        HVDLITE_DEBUG_DELAY_MICROSECONDS=str(schedule.delay_microseconds),
    )  # fmt: skip
    assert done.returncode == 0, f"{schedule}\n{done.stderr.decode()}"
    ends = [json.loads(path.read_text()) for path in job.directory.glob("end.*")]
    assert len(ends) == ends[0]["size"] and all(end == ends[0] for end in ends), schedule
    history = surviving(job.directory.glob("log.*"), ends[0]["position"])
    account(history, schedule.cursor, ends[0])
    assert job.pids() == [], schedule


# The accounting.


@dataclass
class Step:
    """One position of the surviving history."""

    generation: int
    size: int
    epoch: int
    sample: int
    parts: dict[int, list[int]] = field(default_factory=dict)  # by rank

    def indices(self) -> list[int]:
        return [index for rank in range(self.size) for index in self.parts[rank]]


def surviving(logs: Iterable[Path], end: int) -> list[Step]:
    """The steps of the positions from 0 to `end`; all ranks have logged each."""
    steps: dict[int, Step] = {}
    for path in logs:
        for line in path.read_text().splitlines():
            generation, position, epoch, sample, rank, size, indices = json.loads(line)
            step = steps.get(position)
            if step is None or step.generation < generation:
                step = steps[position] = Step(generation, size, epoch, sample)
            if step.generation == generation:
                assert rank not in step.parts, f"rank {rank} has begun step {position} twice"
                place = (size, epoch, sample)
                assert (step.size, step.epoch, step.sample) == place, f"step {position} differs"
                step.parts[rank] = indices
    history = [steps[position] for position in range(end)]
    for position, step in enumerate(history):
        assert set(step.parts) == set(range(step.size)), f"step {position}: {step}"
    generations = [step.generation for step in history]
    assert generations == sorted(generations)
    return history


def account(history: Sequence[Step], cursor: dict[str, Any], said: dict[str, Any]) -> None:
    """Each sample of each epoch is in exactly one step; `said`: what the state has in the end."""
    length, tail = cursor["length"], cursor["tail"]
    counts: Counter[int] = Counter()
    for step in history:
        counts.update(step.indices())
    assert [counts[index] for index in range(length)] == said["counts"]
    if tail == "carry":
        _account_stream([i for step in history for i in step.indices()], cursor)
        return
    epochs: dict[int, list[int]] = {}
    for step in history:
        epochs.setdefault(step.epoch, []).extend(step.indices())
    assert list(epochs) == list(range(said["epoch"])), "an epoch is left out"
    repeated = 0
    for epoch, indices in epochs.items():
        times = Counter(indices)
        repeated += len(indices) - len(times)
        if tail == "drop":
            assert len(times) == len(indices), f"epoch {epoch} has samples twice"
        else:
            assert set(times) == set(range(length)), f"epoch {epoch} lacks samples"
    assert repeated == said["repeated"]


def _account_stream(indices: Sequence[int], cursor: dict[str, Any]) -> None:
    length, seed = cursor["length"], cursor["seed"]
    for epoch in range(-(-len(indices) // length)):
        own = list(indices[epoch * length : (epoch + 1) * length])
        places = list(range(len(own)))
        assert own == list(_order(length, seed, epoch, places)), f"epoch {epoch} differs"


def _order(length: int, seed: int, epoch: int, places: list[int]) -> list[int]:
    import numpy as np

    found: list[int] = shuffled(length, seed, epoch)(np.array(places, np.int64)).tolist()
    return found
