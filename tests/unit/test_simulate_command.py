"""`hvdlite simulate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from test_simulate_timeline import steps

from hvdlite.tools.commands import cli as commands
from hvdlite.tools.simulate import cli


def rows(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_every_combination_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "--model resnet50 --ranks 8 64 --ranks-per-host 4 --bandwidth 10Gbit 25Gbit "
        "--compression none fp16 --step 0.25s --json"
    )
    assert commands.main(["simulate", *arguments.split()]) == 0
    found = rows(capsys)
    assert [(r["ranks"], r["bandwidth"], r["compression"]) for r in found] == [
        (ranks, rate, compression)
        for ranks in (8, 64)
        for rate in (1.25e9, 3.125e9)
        for compression in ("none", "fp16")
    ]
    assert all(r["hosts"] == r["ranks"] // 4 for r in found)  # type: ignore[operator]


def test_one_host_has_one_row_for_all_bandwidths(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--model vgg16 --step 1s --ranks 4 --ranks-per-host 4 --bandwidth 1Gbit 10Gbit"
    assert commands.main(["simulate", *arguments.split(), "--json"]) == 0
    assert len(rows(capsys)) == 1


def test_the_table_says_what_was_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["simulate", "--model", "vgg16", "--step", "400ms", "--ranks", "8"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0] == (
        "vgg16: 553 MB in 32 gradients, one rank alone takes 400 ms for a step; jitter 2.0%, "
        "assumed"
    )
    assert output[2].split() == [
        "ranks", "hosts", "bandwidth", "compression", "step", "network", "waits", "efficiency",
        "speedup", "by",
    ]  # fmt: skip
    assert output[3].endswith("net direct")


def test_a_timeline_needs_no_step_and_brings_its_jitter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "timeline.json"
    file.write_text(json.dumps(steps(0, 110, 220, 330)))
    assert commands.main(["simulate", "--timeline", str(file), "--ranks", "1", "--json"]) == 0
    assert rows(capsys)[0]["step"] == pytest.approx(0.1)
    words = ["simulate", "--timeline", str(file), "--ranks", "1", "--step", "1s", "--json"]
    assert commands.main(words) == 0
    assert rows(capsys)[0]["step"] == pytest.approx(1.0)
    assert commands.main(["simulate", "--timeline", str(file)]) == 0
    assert "4 steps: 138 B in 2 gradients" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--model vgg16", "--model vgg16 needs --step"),
        ("--model vgg16 --step 1s --ranks 6 --ranks-per-host 4", "6 ranks do not fill hosts of 4"),
        ("--timeline /nowhere/at/all", "No such file"),
    ],
)
def test_a_question_without_sense_is_answered_with_a_sentence(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["simulate", *arguments.split()]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        "--ranks 8",
        "--model alexnet --step 1s",
        "--model vgg16 --step 1",
        "--model vgg16 --step 1s --bandwidth fast",
        "--model vgg16 --step 1s --ranks 0",
        "--model vgg16 --step 1s --goodput 0",
        "--model vgg16 --step 1s --jitter 200%",
    ],
)
def test_wrong_options_are_an_error_with_status_2(arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        commands.main(["simulate", *arguments.split()])
    assert ended.value.code == 2


def test_a_calibration_is_explained_by_the_model() -> None:
    # 3 messages of 20 us; 16 MiB at 1 GB/s, of which 2 (n-1)/n pass.
    size = 16.0 * (1 << 20)
    text = cli.network_options(60e-6, 60e-6 + 1.5 * size / 1e9, size, ranks=4)
    assert text.startswith("--latency 20.0us --bandwidth 8Gbit --goodput 1\n")
    assert "start two" in cli.network_options(1e-6, 1e-3, size, ranks=1)


def test_the_predictions_import_no_framework() -> None:
    import subprocess

    program = (
        "import sys; from hvdlite.tools.commands import cli; "
        "cli.main(['simulate', '--model', 'vgg16', '--step', '1s', '--json']); "
        "assert not {'numpy', 'torch', 'hvdlite._core'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)
