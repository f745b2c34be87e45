"""Faults of hvdlite itself, its doctor and its compat alias: handles, objects, knobs, advice."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
P1: an exception of a signal handler is taken for the operation's
hvdlite/core/handles.py
-             if _is_under_way(native):
-                 raise
test_handles.py::test_a_wait_goes_on_where_it_was_interrupted

P2: the first error leaves the rest of a group under way
hvdlite/core/handles.py
-             outcome = error
+             raise
test_handles.py::test_the_first_error_is_raised_when_all_are_over

P3: objects of other sizes are cut as the first
hvdlite/core/arrays/objects.py
- everything[end - size : end]
+ everything[end - sizes[0] : end]
test_conformance.py::shm-2::objects.everybodys_objects_come_in_the_order_of_ranks

P4: the result of an operation in place is not written back into memory that is not contiguous
hvdlite/core/arrays/framework.py
-         if host is not tensor:
-             tensor[...] = host
test_conformance.py::shm-2::allreduce.a_view_is_reduced_in_place

P5: a process set may name a rank twice
hvdlite/core/process_sets.py
-     if len(set(ranks)) != len(ranks):
-         raise ValueError(f"a process set must not name a rank twice: {ranks}")
test_conformance.py::shm-2::process_sets.what_makes_no_sense_is_refused

P6: `HVDLITE_X= command` is an error instead of not set
hvdlite/base/knobs.py
- if text is not None and (text.strip() or self.type == "str"):
+ if text is not None:
test_knobs.py::test_an_empty_number_means_not_set_and_an_empty_text_is_a_value

P7: the doctor does not see that each rank trains a model of its own
hvdlite/tools/doctor/training.py
-     if _trains(words) and not wrapped and not by_hand and not words & _BY_OTHERS:
+     if False:
test_doctor.py::test_what_is_found

P8: the doctor reports arguments that exist
hvdlite/tools/doctor/checks.py
-             and name not in found.parameters
+             and name in found.parameters
test_doctor.py::test_what_is_found
test_doctor.py::test_programs_that_run_unchanged_get_a_clean_bill

P9: the doctor compares a classmethod's arguments with those of its class
hvdlite/tools/doctor/surface.py
-     name = behind[0] if behind else "__init__"
+     name = "__init__"
test_doctor.py::test_the_arguments_of_classmethods_are_their_own

P10: ranks of other pods of a machine count as other programs
hvdlite/base/processors.py
-         groups.setdefault((rank.machine, rank.cpus), []).append(rank)
+         groups.setdefault((rank.host, rank.cpus), []).append(rank)
test_processor_usage.py::test_hosts_of_one_machine_are_one

P21: a program that catches the error of horovod.runner.launch._run cannot tell the reason
hvdlite/launch/job.py
-         self.options.hears(sentence or
+         str(sentence or
test_horovod_programs.py::test_a_library_launches_by_horovods_arguments

P22: a job with the same --report file is not noticed
hvdlite/launch/monitor/report.py
-             self._page = _state(self._path)
test_report_page.py::test_another_job_with_the_same_file_is_told_once
""")
