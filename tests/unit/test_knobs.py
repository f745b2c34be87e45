"""The knob table and what is generated from it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from machine import within

from hvdlite.base import knobs, knobs_page

ROOT = Path(__file__).resolve().parents[2]


def test_an_empty_environment_gives_the_defaults() -> None:
    assert knobs.resolve({}) == {knob.field: knob.default for knob in knobs.KNOBS}


def test_the_defaults_programs_rely_on() -> None:
    values = knobs.resolve({})
    assert values["fusion_threshold"] == 128 * 1024 * 1024
    assert values["cycle_time"] == 1.0
    assert values["stall_check_time_seconds"] == 60
    assert values["log_level"] == "warning"


@pytest.mark.parametrize("knob", knobs.KNOBS, ids=lambda knob: knob.field)
def test_a_row_is_sound(knob: knobs.Knob) -> None:
    types = {"bool": bool, "int": int, "float": float, "str": str, "choice": str}
    assert type(knob.default) is types[knob.type]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", knob.field)
    # what NCCL reads, too, has its name
    assert knob.environment[0].startswith(("HVDLITE_", "NCCL_"))
    assert all(name.startswith("HOROVOD_") for name in knob.environment[1:])
    assert knob.about.endswith(".") and "|" not in knob.about
    text = str(knob.default) if knob.type != "bool" else str(int(bool(knob.default)))
    assert knob.parse(text, "default") == knob.default
    assert knob.flag_off is None or knob.is_switch
    assert knob.flag is None or not knob.is_switch or knob.flag_off is not None


def test_fields_variables_and_flags_are_unique() -> None:
    fields = [knob.field for knob in knobs.KNOBS if knob.core]
    variables = [name for knob in knobs.KNOBS for name in knob.environment]
    flags = [flag for knob in knobs.KNOBS for flag in (knob.flag, knob.flag_off) if flag]
    for names in (fields, variables, flags):
        assert len(names) == len(set(names))


def test_an_algorithm_that_is_forced_has_the_cores_name() -> None:
    core = (ROOT / "csrc/comm/choose.h").read_text()
    names = re.search(r"names\[kAlgorithmCount\] = \{([^}]*)\}", core)
    assert names is not None
    forced = knobs.by_field("debug_net_algorithm").choices
    assert set(forced) - {"auto"} < set(re.findall(r'"([a-z-]+)"', names[1]))
    with pytest.raises(
        ValueError,
        match=f"HVDLITE_DEBUG_NET_ALGORITHM='rings' is not allowed: .*{', '.join(forced)}",
    ):
        knobs.resolve({"HVDLITE_DEBUG_NET_ALGORITHM": "rings"})


def test_sections_are_not_scattered() -> None:
    sections = [knob.section for knob in knobs.KNOBS]
    runs = [name for i, name in enumerate(sections) if i == 0 or sections[i - 1] != name]
    assert len(runs) == len(set(runs))


@pytest.mark.parametrize(
    "knob", [k for k in knobs.KNOBS if len(k.environment) > 1], ids=lambda knob: knob.field
)
def test_horovods_variable_counts_until_ours_is_set(knob: knobs.Knob) -> None:
    first, second = knob.environment
    samples = {"bool": ("1", "0"), "int": ("7", "8"), "float": ("7.5", "8.5"), "str": ("a", "b")}
    one, two = samples.get(
        knob.type, (knob.choices[-1], knob.choices[0]) if knob.choices else ("", "")
    )
    assert knobs.resolve({second: one})[knob.field] == knob.parse(one, "x")
    assert knobs.resolve({first: two, second: one})[knob.field] == knob.parse(two, "x")


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "yes", "on", "On", "2", "77", " 1 "])
def test_true_is_said_in_many_ways(text: str) -> None:
    assert knobs.resolve({"HOROVOD_STALL_CHECK_DISABLE": text})["stall_check_disable"] is True
    assert knobs.resolve({"HOROVOD_HIERARCHICAL_ALLREDUCE": text})["hierarchical_allreduce"] == "on"


@pytest.mark.parametrize("text", ["0", "false", "No", "off", "-1", "00"])
def test_false_is_said_in_many_ways(text: str) -> None:
    assert knobs.resolve({"HVDLITE_STALL_CHECK_DISABLE": text})["stall_check_disable"] is False
    assert (
        knobs.resolve({"HVDLITE_HIERARCHICAL_ALLREDUCE": text})["hierarchical_allreduce"] == "off"
    )


def test_an_empty_number_means_not_set_and_an_empty_text_is_a_value() -> None:
    assert knobs.resolve({"HVDLITE_CYCLE_TIME": ""})["cycle_time"] == 1.0
    assert knobs.resolve({"HVDLITE_CYCLE_TIME": "", "HOROVOD_CYCLE_TIME": "3"})["cycle_time"] == 3.0
    assert knobs.resolve({"HVDLITE_TIMELINE": "", "HOROVOD_TIMELINE": "t.json"})["timeline"] == ""


def test_choices_ignore_case() -> None:
    assert knobs.resolve({"HOROVOD_LOG_LEVEL": "INFO"})["log_level"] == "info"


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("HVDLITE_CYCLE_TIME", "fast", "a number from 0 to 60000 (milliseconds)"),
        ("HVDLITE_CYCLE_TIME", "nan", "a number from 0"),
        ("HOROVOD_CYCLE_TIME", "-1", "a number from 0"),
        ("HVDLITE_STALL_CHECK_TIME_SECONDS", "inf", "a number of at least 0 (seconds)"),
        ("HOROVOD_FUSION_THRESHOLD", "64MB", "a whole number of at least 0 (bytes)"),
        ("HVDLITE_FUSION_THRESHOLD", "1.5", "a whole number"),
        ("HVDLITE_FUSION_THRESHOLD", str(1 << 63), "a whole number"),
        ("HVDLITE_SHM_CHUNK_BYTES", "4095", "a whole number from 4096"),
        ("HVDLITE_LOG_LEVEL", "loud", "one of trace, debug, info, warning, error, fatal"),
        ("HVDLITE_HIERARCHICAL_ALLREDUCE", "maybe", "one of auto, on, off (or 1/0)"),
        ("HVDLITE_STALL_CHECK_DISABLE", "maybe", "1/0, true/false, yes/no or on/off"),
        ("HVDLITE_CPU_OPERATIONS", "1", "one of auto, shm, net, mpi, gloo"),
    ],
)
def test_a_bad_value_names_the_variable_the_value_and_what_is_allowed(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(ValueError) as error:
        knobs.resolve({name: value})
    text = str(error.value)
    assert text.startswith(f"{name}={value!r}") and allowed in text


def test_a_bad_value_that_is_overridden_does_no_harm() -> None:
    assert (
        knobs.resolve({"HVDLITE_CYCLE_TIME": "2", "HOROVOD_CYCLE_TIME": "fast"})["cycle_time"]
        == 2.0
    )


def test_the_cpp_list_has_a_line_for_each_knob_of_the_core_and_needs_nothing_installed(
    tmp_path: Path,
) -> None:
    out = tmp_path / "knobs.inc"
    command = [sys.executable, "-S", "-E", str(ROOT / "csrc" / "base" / "knobs.py"), str(out)]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=within(30))
    lines = out.read_text().splitlines()
    kinds, literals = "bool|int64_t|double|std::string", 'true|false|-?[0-9.]+|"[^"]*"'
    pattern = rf'HVDLITE_KNOB\(({kinds}), ([a-z0-9_]+), ({literals}), "[A-Z0-9_]+", (true|false)\)'
    matches = [re.fullmatch(pattern, line) for line in lines[1:]]
    assert [match and match.group(2) for match in matches] == [
        knob.field for knob in knobs.KNOBS if knob.core
    ]


def test_docs_knobs_md_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "reference" / "knobs.md").read_text(encoding="utf-8")
    assert committed == knobs_page.markdown(), (
        "run: python -m hvdlite.base.knobs_page docs/reference/knobs.md"
    )
