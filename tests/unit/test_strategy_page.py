"""docs/guides/strategy.md and roads.md: what the tables make of the options of DeepSpeed and Paddle
is something that hvdlite has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from installed import needs_installed

from hvdlite.adapter.strategy import Strategy
from hvdlite.base import knobs

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
PARTS = ("compression", "local", "large_batch", "backward_passes_per_step", "sufficient_factors")


def rows(page: str, title: str) -> list[tuple[str, str]]:
    """Both columns of the first table below this heading."""
    text = (GUIDES / page).read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| (.*?) \| (.*?) \|$", text, re.M)
    return [row for row in found if not row[0].startswith(("Fleet", "DeepSpeed", "They"))]


TABLES = {
    "paddle": rows("strategy.md", "From Paddle Fleet"),
    "deepspeed": rows("strategy.md", "From DeepSpeed"),
    "short": rows("roads.md", "DeepSpeed and Paddle"),
}
ROWS = [(table, *row) for table, found in TABLES.items() for row in found]


def test_the_tables_were_found_and_have_the_options_that_people_ask_for() -> None:
    assert {name: len(found) for name, found in TABLES.items()} == {
        "paddle": 23, "deepspeed": 14, "short": 9,
    }  # fmt: skip
    asked = {
        "paddle": "dgc localsgd lars lamb gradient_merge fuse_grad_size_in_MB sharding pipeline",
        "deepspeed": "gradient_accumulation_steps gradient_clipping fp16 bf16 OneBitAdam Lamb "
        "zero_optimization communication_data_type",
        "short": "zero_optimization OneBitAdam dgc lars fuse_grad_size_in_MB gradient_clipping",
    }
    for table, names in asked.items():
        left = " ".join(row[0] for row in TABLES[table])
        assert [name for name in names.split() if f"`{name}" not in left] == []


@pytest.mark.parametrize("ours", [row[2] for row in ROWS], ids=[row[1][:40] for row in ROWS])
def test_what_a_row_names_exists(ours: str) -> None:
    variables = {name for knob in knobs.KNOBS for name in knob.environment}
    for code in re.findall(r"`([^`]+)`", ours):
        if code.startswith(PARTS) and ": " in code:
            # raises an error for what it does not know
            Strategy.from_dict(yaml.safe_load(re.sub(r"\bK\b", "16", code)))
        elif code.startswith("hvd."):
            needs_installed("torch")
            import hvdlite.torch

            assert hasattr(hvdlite.torch, re.split(r"[.(]", code)[1]), code
        elif code.startswith("HVDLITE_"):
            assert code in variables
