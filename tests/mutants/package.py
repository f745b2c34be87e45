"""Faults of hvdlite itself, its doctor and its compat alias: handles, objects, knobs, advice."""

from __future__ import annotations

from mutants.mutant import Mutant

_NUMPY = "tests/conformance/test_conformance.py::shm-2::"

MUTANTS = (
    Mutant(
        "P1",
        "hvdlite/core/handles.py",
        "            if _is_under_way(native):\n                raise\n",
        "",
        "an exception of a signal handler is taken for the operation's",
        ("tests/unit/test_handles.py::test_a_wait_goes_on_where_it_was_interrupted",),
    ),
    Mutant(
        "P2",
        "hvdlite/core/handles.py",
        "            outcome = error\n",
        "            raise\n",
        "the first error leaves the rest of a group under way",
        ("tests/unit/test_handles.py::test_the_first_error_is_raised_when_all_are_over",),
    ),
    Mutant(
        "P3",
        "hvdlite/arrays/objects.py",
        "        _from_bytes(everything[end - size : end]) for end, size "
        "in zip(ends, sizes, strict=True)",
        "        _from_bytes(everything[end - sizes[0] : end]) for end, size "
        "in zip(ends, sizes, strict=True)",
        "objects of other sizes are cut as the first",
        (_NUMPY + "objects.everybodys_objects_come_in_the_order_of_ranks",),
    ),
    Mutant(
        "P4",
        "hvdlite/arrays/framework.py",
        "        if host is not tensor:\n            tensor[...] = host\n",
        "",
        "the result of an operation in place is not written back into memory that is not "
        "contiguous",
        (_NUMPY + "allreduce.a_view_is_reduced_in_place",),
    ),
    Mutant(
        "P5",
        "hvdlite/core/process_sets.py",
        '    if len(set(ranks)) != len(ranks):\n        raise ValueError(f"a process set must not '
        'name a rank twice: {ranks}")\n',
        "",
        "a process set may name a rank twice",
        (_NUMPY + "process_sets.what_makes_no_sense_is_refused",),
    ),
    Mutant(
        "P6",
        "hvdlite/base/knob.py",
        'if text is not None and (text.strip() or self.type == "str"):',
        "if text is not None:",
        "`HVDLITE_X= command` is an error instead of not set",
        (
            "tests/unit/test_knobs.py::test_an_empty_number_means_not_set_and_an_empty_text_is_a_value",
        ),
    ),
    Mutant(
        "P7",
        "hvdlite/doctor/training.py",
        '    if _trains(words) and not wrapped and not any("allreduce" in name for name in '
        "used):\n",
        "    if False:\n",
        "the doctor does not see that each rank trains a model of its own",
        ("tests/unit/test_doctor.py::test_what_is_found",),
    ),
    Mutant(
        "P8",
        "hvdlite/doctor/checks.py",
        "            and name not in found.parameters",
        "            and name in found.parameters",
        "the doctor reports arguments that exist",
        (
            "tests/unit/test_doctor.py::test_what_is_found",
            "tests/unit/test_doctor.py::test_programs_that_run_unchanged_get_a_clean_bill",
        ),
    ),
)
