"""What the launcher tells an agent on another host: an Order, as `<length>\\n<JSON>` on the agent's standard input. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Order:
    secret: str = field(repr=False)  # the job's, in hex digits
    port: int  # of the store
    addresses: Sequence[str]  # of the launcher's machine; which of them leads there has to be found out
    addresses_chosen: bool  # by hand: no other is to be tried
    patience: float  # seconds for finding out
    directory: str  # where the ranks run, if it exists
    command: Sequence[str]
    environment: Mapping[str, str]  # for all ranks
    ranks: Mapping[int, Mapping[str, str]]  # those of this host, and what only each of them gets
    bind: str  # of binding.WISHES
    grace_seconds: float  # between SIGTERM and SIGKILL
    torch_host: str  # where torch's ranks meet; empty: on the launcher's machine
    torch_port: int  # 0: they do not (--torch-env)
    silence_seconds: float  # after which the launcher's machine counts as gone; 0: never

    def encode(self) -> bytes:
        text = json.dumps(dataclasses.asdict(self)).encode()
        return f"{len(text)}\n".encode() + text

    @classmethod
    def decode(cls, content: Mapping[str, Any]) -> Order:
        """From what guardian.read_job() has read. ValueError: another version's."""
        names = {each.name for each in dataclasses.fields(cls)}
        if content.keys() != names:
            raise ValueError(
                "launcher and agent are of different versions of hvdlite: install the same one on every host "
                f"(they disagree about {', '.join(sorted(names ^ content.keys()))})"
            )
        ranks = {int(rank): environment for rank, environment in content["ranks"].items()}
        return cls(**{**content, "ranks": ranks})
