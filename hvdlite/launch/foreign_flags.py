"""The flags of horovodrun that hvdlite has no use for.

They are accepted, with a line that says why they have no effect.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Foreign:
    """A flag of horovodrun that does nothing here."""

    flags: tuple[str, ...]
    why: str
    arguments: int = 0
    type: Callable[[str], object] = str

    @property
    def destination(self) -> str:
        return "foreign_" + self.flags[0].lstrip("-").replace("-", "_")


_TUNING = (
    "hvdlite's autotuning compares settings pairwise, without a model of them, and does not end "
    "(docs/guides/autotune.md)"
)

WITHOUT_EFFECT = (
    Foreign(("--disable-cache",), "hvdliterun remembers nothing from one run to the next"),
    Foreign(("--hierarchical-allgather", "--no-hierarchical-allgather"), "an allgather always uses "
                                                                         "shared memory within "
                                                                         "a host"),
    Foreign(("--autotune-bayes-opt-max-samples",), _TUNING, 1, int),
    Foreign(("--autotune-gaussian-process-noise",), _TUNING, 1, float),
    Foreign(("--num-nccl-streams",), "hvdlite orders its operations on one stream", 1, int),
    Foreign(("--gloo-timeout-seconds",), "--start-timeout and HVDLITE_HEARTBEAT_SECONDS set "
                                         "these times", 1, int),
)  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "flags of horovodrun without effect",
        ", ".join(foreign.flags[0] for foreign in WITHOUT_EFFECT),
    )
    for foreign in WITHOUT_EFFECT:
        more: dict[str, Any] = {
            "nargs": foreign.arguments or None,
            "type": foreign.type,
            "metavar": "X",
        }
        if not foreign.arguments:
            more = {"action": "store_true"}
        elif foreign.arguments == 1:
            more["nargs"] = None
        group.add_argument(
            *foreign.flags, dest=foreign.destination, default=None, help=argparse.SUPPRESS, **more
        )


def given(arguments: argparse.Namespace, foreign: Sequence[Foreign]) -> list[Foreign]:
    """Returns which of these flags are on the command line."""
    return [each for each in foreign if getattr(arguments, each.destination, None) is not None]
