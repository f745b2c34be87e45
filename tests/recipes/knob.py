"""HVDLITE_LAUNCH_NOTE, a line that hvdliterun prints before it starts the ranks."""

from __future__ import annotations

from recipes import Insert, Limits, Written

CHANGES = (
    Insert(
        "hvdlite/base/knobs.py",
        "KNOBS: tuple[Knob, ...] = (\n",
        """    # --- An example
    Knob(
        "launch_note", _names("LAUNCH_NOTE", None), "str", "",
        "A line that hvdliterun prints before it starts the ranks. Empty: none.",
        "Notes", flag="--launch-note", core=False,
    ),
""",
    ),
    Insert(
        "hvdlite/launch/cli.py",
        "    notes = [request.hosts_from] if request.hosts_from and arguments.verbose else []\n",
        '    notes += [str(values["launch_note"])] if values["launch_note"] else []\n',
    ),
    Written(
        "docs/reference/knobs.md", ("-m", "hvdlite.base.knobs_page", "docs/reference/knobs.md")
    ),
    Insert(
        "tests/unit/test_knobs.py",
        "ROOT = Path(__file__).resolve().parents[2]\n",
        """

def test_a_note_is_any_text() -> None:
    assert knobs.resolve({"HVDLITE_LAUNCH_NOTE": "a: b"})["launch_note"] == "a: b"
""",
    ),
    Limits(),
    Insert("CHANGELOG.md", "## Unreleased\n\n", "- `hvdliterun --launch-note` prints a line.\n"),
)
