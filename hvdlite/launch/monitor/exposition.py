"""The ranks' numbers as Prometheus reads them, and as a line of JSON. Pure.

Names and labels are a promise: dashboards are built on them. docs/guides/monitoring.md lists them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hvdlite.launch.monitor.board import Board, Row

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Family:
    """A metric of each rank."""

    name: str
    help: str
    counter: str = ""  # its name in hvd.metrics(), if it has one of its own there

    @property
    def type(self) -> str:
        return "counter" if self.name.endswith("_total") else "gauge"


_UP = Family("hvdlite_up", "Whether the rank has reported within the last 5 seconds.")
_RANKS = Family("hvdlite_ranks", "Ranks of the job.")
_CHANGES = Family(
    "hvdlite_world_changes_total", "How often the ranks of an elastic job have changed."
)
_STEPS = Family("hvdlite_steps_per_second", "How often the names of tensors return.")
_WAITING = Family(
    "hvdlite_waiting_ratio", "The share of the time in which the rank waited for others."
)
_LATE = Family(
    "hvdlite_late_seconds", "How much of a step, or of an operation, waited for this rank."
)
_STRAGGLER = Family("hvdlite_straggler", "Whether the others wait for this rank.")
_WAITED_FOR = Family(
    "hvdlite_waited_for_seconds_total",
    "The time in which operations waited for this rank as the last one.",
    "seconds_waited_for_rank",
)
_CARRIED = Family(
    "hvdlite_carried_operations_total",
    "Operations by what has carried them: shared memory, TCP, MPI, NCCL.",
    "carried_by",
)
_INTERFACES = Family(
    "hvdlite_interface_bytes_total",
    "Bytes of tensors by network interface, if the job uses several.",
    "interfaces",
)
_PROCESS = (
    Family(
        "hvdlite_cpu_seconds_total",
        "Processor time of the rank's process since its start.",
        "cpu_seconds",
    ),
    Family("hvdlite_memory_bytes", "Resident memory of the rank's process.", "memory"),
)
_REQUESTS = Family(
    "hvdlite_requests_total",
    "Requests that were sent in full, and by their number in the cache.",
)
_COUNTERS = (
    Family("hvdlite_operations_total", "Operations that have succeeded.", "operations"),
    Family("hvdlite_failures_total", "Operations that have failed.", "failures"),
    Family("hvdlite_result_bytes_total", "Bytes of the operations' results.", "bytes"),
    Family(
        "hvdlite_before_encoding_bytes_total",
        "Bytes that encoded tensors would have sent as float32.",
        "bytes_before_encoding",
    ),
    Family(
        "hvdlite_encoded_bytes_total",
        "Bytes that they have sent.",
        "bytes_encoded",
    ),
    Family("hvdlite_batches_total", "Batches.", "batches"),
    Family("hvdlite_fused_batches_total", "Batches of several tensors.", "batches_fused"),
    Family("hvdlite_gpu_batches_total", "Batches on a GPU.", "batches_on_gpu"),
    Family(
        "hvdlite_negotiating_seconds_total",
        "The time in which operations were submitted and not agreed on.",
        "seconds_negotiating",
    ),
    Family(
        "hvdlite_moving_seconds_total",
        "The time in which batches were in flight.",
        "seconds_moving",
    ),
    Family(
        "hvdlite_background_wakes_total",
        "How often the background thread woke up to work.",
        "background_wakes",
    ),
    Family(
        "hvdlite_processor_moves_total",
        "How often a waiting thread left a processor that another rank used.",
        "moves_to_another_processor",
    ),
)


def page(board: Board, now: float) -> str:
    """All metrics of all ranks in Prometheus' text format."""
    rows = board.rows(now)
    counters = {row.rank: board.counters(row.rank) for row in rows}
    lines: list[str] = []

    def add(family: Family, samples: list[tuple[Labels, float | None]]) -> None:
        told = [(labels, value) for labels, value in samples if value is not None]
        if told:
            lines.append(f"# HELP {family.name} {family.help}")
            lines.append(f"# TYPE {family.name} {family.type}")
            lines.extend(_sample(family.name, labels, value) for labels, value in told)

    add(_RANKS, [({}, len(rows))])
    add(_CHANGES, [({}, board.changes)])
    add(_UP, [(_of(row), float(row.operations is not None)) for row in rows])
    add(_STEPS, [(_of(row), row.steps) for row in rows])
    add(_WAITING, [(_of(row), row.waiting) for row in rows])
    add(_LATE, [(_of(row), row.late) for row in rows])
    add(_STRAGGLER, [(_of(row), float(row.straggler)) for row in rows])
    for family in _COUNTERS:
        add(family, [(_of(row), counters[row.rank].get(family.counter)) for row in rows])
    for family in _PROCESS:
        add(family, [(_of(row), board.process(row.rank).get(family.counter)) for row in rows])
    waited = counters.get(0, {}).get(_WAITED_FOR.counter, {})
    add(_WAITED_FOR, [(_of(row), waited.get(str(row.rank))) for row in rows])
    forms = {"full": "requests_in_full", "number": "requests_by_slot"}
    add(
        _REQUESTS,
        [
            (_of(row) | {"form": form}, counters[row.rank].get(name))
            for row in rows
            for form, name in forms.items()
        ],
    )
    for family, names in (
        (_CARRIED, ("carrier", "operation")),
        (_INTERFACES, ("interface", "direction")),
    ):
        nested = [(row, counters[row.rank].get(family.counter, {})) for row in rows]
        add(family, [each for row, table in nested for each in _cells(row, table, *names)])
    return "\n".join(lines) + "\n"


def line(board: Board, now: float, clock: float, began: float) -> str:
    """The same as one line of JSON. `clock`: the time of day; `began`: when the job did."""
    return json.dumps(record(board, now, clock, began))


def record(board: Board, now: float, clock: float, began: float) -> Mapping[str, Any]:
    """What `hvdlite report` reads."""
    ranks = [
        {
            "rank": row.rank,
            "host": row.host,
            "steps_per_second": row.steps,
            "operations_per_second": row.operations,
            "bytes_per_second": row.bytes,
            "waiting": row.waiting,
            "late_seconds": row.late,
            "cores": row.cores,
            "straggler": row.straggler,
            "note": row.note,
            "memory_bytes": row.memory,
            "counters": board.counters(row.rank),
        }
        for row in board.rows(now)
    ]
    found = {"time": clock, "began": began, "world_changes": board.changes, "ranks": ranks}
    taken = [dataclasses.asdict(each) for each in board.taken(now)]
    more = {"heading": board.heading, "details": board.details, "taken": taken}
    return found | {name: value for name, value in more.items() if value}


def _of(row: Row) -> dict[str, str]:
    return {"rank": str(row.rank), "host": row.host}


def _cells(
    row: Row, table: Mapping[str, Any], outer: str, inner: str
) -> Iterator[tuple[Labels, float]]:
    for name, counts in table.items():
        for each, count in counts.items():
            yield _of(row) | {outer: name, inner: each}, count


def _sample(name: str, labels: Labels, value: float) -> str:
    text = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels.items())
    number = f"{value:g}"
    if float(number) != value:
        number = repr(value)
    return f"{name}{{{text}}} {number}" if labels else f"{name} {number}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
