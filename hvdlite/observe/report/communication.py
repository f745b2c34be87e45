"""The sections about tensors, batches and transports. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from hvdlite.observe.report import charts, details, words
from hvdlite.observe.report.charts import Bar, section, table
from hvdlite.observe.report.details import Details, Tensor
from hvdlite.observe.report.facts import Facts
from hvdlite.observe.report.words import escaped

_SHOWN_TENSORS = 15
_SHOWN_ALGORITHMS = 10
# How people call what moves bytes.
_TRANSPORTS = {
    "shm": "shared memory",
    "net": "TCP",
    "mpi": "MPI",
    "nccl": "NCCL",
    "hierarchical": "shared memory and TCP",
    "stage": "host memory, for a GPU",
    "self": "nothing: one rank",
    "": "not known",
}


def tensors(facts: Facts) -> str:
    """The slowest ones."""
    seen = facts.details
    if seen is None or not seen.tensors or not seen.seconds:
        return ""
    shown = seen.tensors[:_SHOWN_TENSORS]
    most = max(tensor.seconds for tensor in shown) or 1.0
    rows = "".join(_row(tensor, seen, most) for tensor in shown)
    head = (
        '<tr><th class="left">tensor</th><th class="left" colspan="2">share of the communication'
        "</th><th>in flight, mean</th><th>size</th><th>waited, mean</th><th>times</th></tr>"
    )
    note = (
        f"What rank {seen.rank} saw of {words.count(seen.operations)} operations. The time of a "
        "batch is shared by its tensors according to their bytes. Waited: from this rank's request "
        "to that of the last rank."
    )
    return section("Slowest tensors", note, table(head, rows))


def _row(tensor: Tensor, seen: Details, most: float) -> str:
    times = max(1, tensor.operations)
    width = 100 * tensor.seconds / most
    return (
        f'<tr><td class="left long">{escaped(tensor.name)}</td>'
        f'<td class="bar"><div class="track"><i class="b1" style="width:{width:.1f}%"></i></div>'
        f"</td><td>{words.percent(tensor.seconds / seen.seconds)}</td>"
        f"<td>{words.seconds(tensor.seconds / times)}</td>"
        f"<td>{words.size(tensor.bytes / times)}</td>"
        f"<td>{words.seconds(tensor.waited / times)}</td>"
        f"<td>{words.count(tensor.operations)}</td></tr>"
    )


def overlap(facts: Facts) -> str:
    """How much of the communication computing hides."""
    seen = facts.details
    if seen is None or seen.overlap.steps <= 0 or seen.overlap.moving <= 0:
        return ""
    steps, moving = seen.overlap.steps, min(seen.overlap.moving, seen.overlap.steps)
    hidden = min(seen.overlap.hidden, moving)
    parts = [
        ("no tensor in flight", (steps - moving) / steps, 0),
        ("communication during the backward pass", hidden / steps, 3),
        ("communication after it", (moving - hidden) / steps, 2),
    ]
    names = [(f"{label}, {words.percent(share)}", colour) for label, share, colour in parts]
    chart = charts.stack(parts, "; ".join(label for label, _ in names))
    note = (
        f"A step of rank {seen.rank}. Gradients that travel while later ones are still to come "
        "cost no time of their own."
    )
    return section("Overlap with the backward pass", note, chart + charts.legend(names, "boxes"))


def batches(facts: Facts) -> str:
    """How many tensors travel together."""
    sums = facts.sum
    if not sums.batches:
        return ""
    note = (
        f"{words.count(sums.operations)} operations in {words.count(sums.batches)} batches; "
        f"{words.percent(sums.fused / sums.batches)} of the batches are fused."
    )
    requests = sums.in_full + sums.by_number
    if requests:
        note += f" {words.percent(sums.by_number / requests)} of the requests went by number."
    drawn = ""
    if facts.details is not None and facts.details.fusion:
        counted = facts.details.fusion
        whole = sum(counted.values())
        drawn = charts.bars(
            Bar(f"{group} tensor{'' if group == '1' else 's'}", counted.get(group, 0) / whole,
                words.percent(counted.get(group, 0) / whole))
            for group in details.groups()
        )  # fmt: skip
    return section("Batches and fusion", note, drawn)


def transports(facts: Facts) -> str:
    """What has moved the bytes."""
    seen, sums = facts.details, facts.sum
    parts = []
    if seen is not None and any(seen.ways.values()):
        whole = sum(seen.ways.values())
        parts.append(
            charts.bars(
                Bar(_TRANSPORTS.get(name, name), size / whole, words.percent(size / whole), name, 3)
                for name, size in _largest(seen.ways)
            )
        )
    if sums.carried:
        most = max(sums.carried.values())
        parts.append('<p class="note">Batches by algorithm:</p>')
        parts.append(
            charts.bars(
                Bar(name, count / most, words.count(count), colour=0)
                for name, count in list(_largest(sums.carried))[:_SHOWN_ALGORITHMS]
            )
        )
    if sums.interfaces:
        most = max(sums.interfaces.values()) or 1.0
        parts.append('<p class="note">Bytes sent by network interface:</p>')
        parts.append(
            charts.bars(
                Bar(name, size / most, words.size(size), colour=6)
                for name, size in _largest(sums.interfaces)
            )
        )
    if not parts:
        return ""
    note = f"{words.size(sums.bytes)} of results on rank {min(facts.totals, default=0)}."
    if seen is not None:
        note += " The shares are those of the operations in the table of tensors."
    return section("Ways of the bytes", note, "".join(parts))


def _largest(table: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(table.items(), key=lambda each: -each[1])
