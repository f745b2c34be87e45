"""What the tasks hand back to the driver, and which rank's failure has ended the job. Pure."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hvdlite.launch import delivery
from hvdlite.launch.spawn.events import RankEnded
from hvdlite.launch.verdict import Verdict

SCHEMA = "rank int, kind string, chunk binary"
# Rows of this size stay below Connect's batches, and 100 of them are no problem.
CHUNK_BYTES = 1 << 20

Row = tuple[int, str, bytes]


@dataclass(frozen=True)
class RankReport:
    """How the process of one rank has ended."""

    rank: int
    host: str
    code: int = 0
    signal: int = 0
    words: str = ""  # its last words, if it has failed
    ended_by_us: bool = False  # another rank had failed before, and its task has ended it
    result: bytes | None = None
    failure: bytes | None = None  # the pickle of delivery.RankFailure


def rows(report: RankReport) -> Iterator[Row]:
    """What a task yields."""
    facts = asdict(report)
    for kind in ("result", "failure"):
        data = facts.pop(kind)
        facts[f"has_{kind}"] = data is not None
        for start in range(0, len(data or b""), CHUNK_BYTES):
            yield report.rank, kind, data[start : start + CHUNK_BYTES]
    yield report.rank, "facts", json.dumps(facts).encode()


def reports(found: Iterable[Row]) -> list[RankReport]:
    """The reverse of rows(), of all tasks; the chunks of a rank are in their order."""
    pieces: dict[tuple[int, str], list[bytes]] = {}
    for rank, kind, chunk in found:
        pieces.setdefault((rank, kind), []).append(bytes(chunk))
    those: list[RankReport] = []
    for rank in sorted({rank for rank, _ in pieces}):
        facts = json.loads(b"".join(pieces[rank, "facts"]))
        result, failure = (
            b"".join(pieces.get((rank, kind), [])) if facts.pop(f"has_{kind}") else None
            for kind in ("result", "failure")
        )
        those.append(RankReport(**facts, result=result, failure=failure))
    return those


def results(those: Sequence[RankReport], size: int) -> list[Any]:
    """Returns the results in the order of ranks. Raises the RuntimeError of the rank that has
    failed, or of one without a result."""
    verdict = judged(those)
    if verdict.status() != 0:
        _fail(those, verdict)
    if len(those) != size:
        raise RuntimeError(f"{len(those)} of {size} tasks of Spark have handed back a report.")
    return [_result(report) for report in those]


def judged(those: Iterable[RankReport]) -> Verdict:
    """The launcher's judgement on these ends."""
    those = list(those)
    verdict = Verdict({report.rank: report.host for report in those})
    for report in those:
        if not report.ended_by_us:
            ended = RankEnded(report.rank, report.code, report.signal)
            verdict.ended(ended, report.words.encode(), now=0.0)
    return verdict


def _fail(those: Sequence[RankReport], verdict: Verdict) -> None:
    culprit = verdict.culprit()
    failure = next((it.failure for it in those if it.rank == culprit), None)
    if culprit is None or failure is None:  # it was killed, or has called sys.exit()
        raise RuntimeError(verdict.sentence(["python"]).removeprefix("hvdliterun: "))
    told = delivery.RankFailure(*pickle.loads(failure))
    what = f"rank {culprit} on {verdict.hosts[culprit]} raised {told.last_line}"
    delivery.fail(what, f"rank {culprit}", told)


def _result(report: RankReport) -> Any:
    if report.result is None:
        raise RuntimeError(
            f"rank {report.rank} on {report.host} ended without a result: the function has ended "
            "the process itself, with sys.exit() or os._exit()"
        )
    try:
        return pickle.loads(report.result)
    except Exception as error:
        raise RuntimeError(
            f"the result of rank {report.rank} on {report.host} cannot be unpickled here: "
            f"{type(error).__name__}: {error}"
        ) from error


# Spark's words, the most telling first.
_REASONS: Mapping[str, str] = {
    r"ExecutorLostFailure \((?P<what>.*)": "an executor was lost: {what}",
    r"^(?P<what>(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt): (?!An exception was thrown).+)":
    "{what}",
    r"(?P<what>Python worker exited unexpectedly.*)": "{what}",
    r"(?P<what>.*cancelled.*)": "{what}",
}  # fmt: skip
_WRAPPERS = ("Py4JJavaError", "SparkException", "PythonException", "BarrierJob", "PySpark")


def why(text: str) -> str:
    """Returns the sentence in the text of an exception of Spark that says why a job has failed."""
    for pattern, sentence in _REASONS.items():
        for found in re.finditer(pattern, text, re.M):
            what = found["what"].strip().rstrip(")")
            if not what.startswith(_WRAPPERS) and not what.startswith("org.apache"):
                return sentence.format(what=what)
    return text.strip().splitlines()[0] if text.strip() else "Spark does not say why"
