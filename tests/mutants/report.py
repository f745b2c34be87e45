"""Faults of hvdlite/observe/report: what a page says, and what it lets through."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
RP1: the name of a tensor becomes a part of the page
hvdlite/observe/report/words.py
- return html.escape(plain(str(text)))
+ return plain(str(text))
test_report_page.py::test_what_comes_from_the_job_is_escaped

RP2: other users can read the page
hvdlite/base/private_file.py
- os.open(new, flags, 0o600)
+ os.open(new, flags, 0o644)
test_report_command.py::test_a_page_of_a_file_of_metrics

RP3: a rank is blamed for what all do
hvdlite/observe/report/findings.py
- and share >= _MOST_OF_IT * sum(shares.values())
test_report_findings.py::test_what_is_said

RP4: counters that begin anew make sums smaller
hvdlite/observe/report/history.py
- and last <= value else 0
+ else 0
test_report_history.py::test_counters_that_begin_anew_go_on_counting

RP5: a metric after the step counts as a gradient that hides the others
hvdlite/observe/report/details.py
- if each["submitted"] < busy_until:
+ if True:
test_report_history.py::test_a_metric_after_the_step_is_no_gradient

RP6: time between two reports of the ranks is lost, and shares are too large
hvdlite/observe/report/history.py
- worked = pause if pause <= _LONGEST_PAUSE else elapsed
+ worked = elapsed
test_report_history.py::test_records_may_come_more_often_than_reports_and_long_pauses_do_not_count
""")
