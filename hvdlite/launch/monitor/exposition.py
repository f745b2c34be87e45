"""The ranks' numbers as Prometheus reads them, and as a line of JSON. Pure.

Names and labels are a promise: dashboards are built on them. docs/guides/monitoring.md lists them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hvdlite.launch.monitor.board import Board, Row

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


# Metrics of each rank that are one of its counters: name, help, the name in hvd.metrics().
_COUNTERS = (
    ("operations_total", "Operations that have succeeded.", "operations"),
    ("failures_total", "Operations that have failed.", "failures"),
    ("result_bytes_total", "Bytes of the operations' results.", "bytes"),
    ("before_encoding_bytes_total", "Bytes that encoded tensors would have sent as float32.",
     "bytes_before_encoding"),
    ("encoded_bytes_total", "Bytes that they have sent.", "bytes_encoded"),
    ("batches_total", "Batches.", "batches"),
    ("fused_batches_total", "Batches of several tensors.", "batches_fused"),
    ("lists_total", "Lists of tensors that were one operation.", "lists"),
    ("lists_taken_apart_total", "Lists whose tensors another rank asked for in another way.",
     "lists_taken_apart"),
    ("gpu_batches_total", "Batches on a GPU.", "batches_on_gpu"),
    ("negotiating_seconds_total",
     "The time in which operations were submitted and not agreed on.", "seconds_negotiating"),
    ("moving_seconds_total", "The time in which batches were in flight.", "seconds_moving"),
    ("background_wakes_total", "How often the background thread woke up to work.",
     "background_wakes"),
    ("processor_moves_total",
     "How often a waiting thread left a processor that another rank used.",
     "moves_to_another_processor"),
)  # fmt: skip


def page(board: Board, now: float) -> str:
    """All metrics of all ranks in Prometheus' text format."""
    rows = board.rows(now)
    counters = {row.rank: board.counters(row.rank) for row in rows}
    lines: list[str] = []

    def add(name: str, about: str, samples: Iterable[tuple[Labels, float | None]]) -> None:
        told = [(labels, value) for labels, value in samples if value is not None]
        if told:
            name = f"hvdlite_{name}"
            lines.append(f"# HELP {name} {about}")
            lines.append(f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}")
            lines.extend(_sample(name, labels, value) for labels, value in told)

    def of_ranks(name: str, about: str, value: Callable[[Row], float | None]) -> None:
        add(name, about, [(_of(row), value(row)) for row in rows])

    add("ranks", "Ranks of the job.", [({}, len(rows))])
    changes = "How often the ranks of an elastic job have changed."
    add("world_changes_total", changes, [({}, board.changes)])
    up = "Whether the rank has reported within the last 5 seconds."
    of_ranks("up", up, lambda row: float(row.operations is not None))
    of_ranks("steps_per_second", "How often the names of tensors return.", lambda row: row.steps)
    waiting = "The share of the time in which the rank waited for others."
    of_ranks("waiting_ratio", waiting, lambda row: row.waiting)
    late = "How much of a step, or of an operation, waited for this rank."
    of_ranks("late_seconds", late, lambda row: row.late)
    straggler = "Whether the others wait for this rank."
    of_ranks("straggler", straggler, lambda row: float(row.straggler))
    for name, about, counter in _COUNTERS:
        add(name, about, [(_of(row), counters[row.rank].get(counter)) for row in rows])
    for name, about, counter in (
        (
            "cpu_seconds_total",
            "Processor time of the rank's process since its start.",
            "cpu_seconds",
        ),
        ("memory_bytes", "Resident memory of the rank's process.", "memory"),
    ):
        add(name, about, [(_of(row), board.process(row.rank).get(counter)) for row in rows])
    waited = counters.get(0, {}).get("seconds_waited_for_rank", {})
    waited_for = "The time in which operations waited for this rank as the last one."
    of_ranks("waited_for_seconds_total", waited_for, lambda row: waited.get(str(row.rank)))
    add(
        "requests_total",
        "Requests that were sent in full, and by their number in the cache.",
        [
            (_of(row) | {"form": form}, counters[row.rank].get(name))
            for row in rows
            for form, name in (("full", "requests_in_full"), ("number", "requests_by_slot"))
        ],
    )
    carried = "Operations by what has carried them: shared memory, TCP, MPI, NCCL."
    by_carrier = _cells(rows, counters, "carried_by", ("carrier", "operation"))
    add("carried_operations_total", carried, by_carrier)
    interfaces = "Bytes of tensors by network interface, if the job uses several."
    by_interface = _cells(rows, counters, "interfaces", ("interface", "direction"))
    add("interface_bytes_total", interfaces, by_interface)
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
    rows: Iterable[Row],
    counters: Mapping[int, Mapping[str, Any]],
    counter: str,
    labels: tuple[str, str],
) -> Iterator[tuple[Labels, float]]:
    """The samples of a counter that is a table of tables, whose keys become labels."""
    for row in rows:
        for outer, table in counters[row.rank].get(counter, {}).items():
            for inner, count in table.items():
                yield _of(row) | dict(zip(labels, (outer, inner), strict=True)), count


def _sample(name: str, labels: Labels, value: float) -> str:
    text = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels.items())
    number = f"{value:g}"
    if float(number) != value:
        number = repr(value)
    return f"{name}{{{text}}} {number}" if labels else f"{name} {number}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
