"""`hvdlite doctor train.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hvdlite.doctor import report
from hvdlite.doctor.examination import examine
from hvdlite.doctor.findings import Kind


def run(paths: Sequence[str], as_json: bool) -> int:
    """Prints the findings; 0: nothing has to be changed, 1: something has to, 2: something could not be read."""
    findings, unreadable = examine(paths)
    if as_json:
        print(report.as_json(findings, unreadable))
    elif findings or not unreadable:
        print(report.text(findings))
    for sentence in unreadable:
        print(f"hvdlite doctor: {sentence}", file=sys.stderr)
    if unreadable:
        return 2
    return int(any(finding.kind is Kind.CHANGE for finding in findings))
