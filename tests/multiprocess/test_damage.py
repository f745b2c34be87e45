"""A bit changes between two hosts, and TCP does not notice: an error that names the connection, on
every rank, and no wrong sum."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bare_ranks import Ranks
from machine import within
from proxies import Damage, Proxies

from hvdlite.exceptions import Cause

HOSTS = ("a", "b", "c")
_ADDS = """
x = np.arange(100_000, dtype=np.float32) + RANK
def add():
    total = hvd.allreduce(x, op=hvd.Sum, name='x')
    assert (total == 3 * np.arange(100_000) + 3).all()
hvd.init(); add(); flag(f'up.{RANK}')
until_it_fails(add)
"""


@pytest.mark.parametrize(
    "damage",
    [
        Damage("tensors", 1, bit=6),  # the length
        Damage("tensors", 12, end="listener"),  # the header's check word
        Damage("tensors", 16 + 5001, bit=7),
        Damage("negotiation", 2, bit=3, end="listener"),
        Damage("negotiation", 9),  # the payload's check word
        Damage("negotiation", 16, bit=1),
    ],
    ids=lambda damage: f"{damage.links}-{damage.byte}",
)
def test_a_bit_that_changes_is_told_to_every_rank(
    tmp_path: Path, damage: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxies(damage, monkeypatch) as proxies, Ranks(tmp_path, 3, HOSTS) as ranks:
        ranks.start(_ADDS, HVDLITE_LINK_CHECKS="on")
        ranks.wait_for_flags("up.0", "up.1", "up.2")
        proxies.arm()
        assert proxies.done.wait(within(20)), ranks.outputs()
        ranks.end_well()
        texts = {ranks.last(rank).get("text") for rank in range(3)}
        for rank in range(3):
            assert ranks.last(rank)["error"] == "PeerLostError", ranks.last(rank)
        assert len(texts) == 1, texts
        named = re.search(
            r"the connection of rank (\d) \(\S+\) with rank (\d) \(\S+\) changes what it carries",
            texts.pop(),
        )
        assert named and named[1] != named[2], ranks.outputs()
        for rank in range(3):
            ranks.expect_loss(rank, (Cause.DAMAGED,), int(named[2]))
