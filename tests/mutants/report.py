"""Faults of hvdlite/report: what a page says, and what it lets through."""

from __future__ import annotations

from mutants.mutant import Mutant

_PAGE = "tests/unit/test_report_page.py::"
_FINDINGS = "tests/unit/test_report_findings.py::"
_HISTORY = "tests/unit/test_report_history.py::"
_COMMAND = "tests/unit/test_report_command.py::"

MUTANTS = (
    Mutant(
        "RP1",
        "hvdlite/report/words.py",
        'return html.escape(_CONTROL.sub("", str(text)))',
        'return _CONTROL.sub("", str(text))',
        "the name of a tensor becomes a part of the page",
        (_PAGE + "test_what_comes_from_the_job_is_escaped",),
    ),
    Mutant(
        "RP2",
        "hvdlite/report/writing.py",
        "os.open(new, flags, 0o600)",
        "os.open(new, flags, 0o644)",
        "other users can read the page",
        (_COMMAND + "test_a_page_of_a_file_of_metrics",),
    ),
    Mutant(
        "RP3",
        "hvdlite/report/findings.py",
        "and share >= _MOST_OF_IT * sum(shares.values())",
        "",
        "a rank is blamed for what all do",
        (_FINDINGS + "test_what_is_said",),
    ),
    Mutant(
        "RP4",
        "hvdlite/report/history.py",
        "and last <= value else 0",
        "else 0",
        "counters that begin anew make sums smaller",
        (_HISTORY + "test_counters_that_begin_anew_go_on_counting",),
    ),
    Mutant(
        "RP5",
        "hvdlite/report/details.py",
        'if each["submitted"] < busy_until:',
        "if True:",
        "a metric after the step counts as a gradient that hides the others",
        (_HISTORY + "test_a_metric_after_the_step_is_no_gradient",),
    ),
    Mutant(
        "RP6",
        "hvdlite/report/history.py",
        "worked = pause if pause <= _LONGEST_PAUSE else elapsed",
        "worked = elapsed",
        "time between two reports of the ranks is lost, and shares are too large",
        (_HISTORY
         + "test_records_may_come_more_often_than_reports_and_long_pauses_do_not_count",),
    ),
)  # fmt: skip
