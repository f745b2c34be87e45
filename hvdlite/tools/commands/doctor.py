"""`hvdlite doctor train.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from hvdlite.tools.doctor import report
from hvdlite.tools.doctor.examination import examine, fix
from hvdlite.tools.doctor.findings import Kind


def run(paths: Sequence[str], as_json: bool, with_fix: bool) -> int:
    """Prints the findings. Returns 0 if nothing has to be changed, 1 if something has to, and 2 if
    a file could not be read."""
    if with_fix:
        for file, changed in fix(paths):
            print(
                f"{file}:{changed.line}: fixed: {changed.before} -> {changed.after}",
                file=sys.stderr,
            )
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
