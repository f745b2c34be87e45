"""Who am I."""

from __future__ import annotations

import hvdlite as hvd
from checks import check
from checks.here import Here
from hvdlite import _core


@check(tags=["engine"])
def rank_and_size_are_those_of_the_launcher(here: Here) -> None:
    assert (hvd.rank(), hvd.size()) == (here.rank, here.size)
    assert hvd.is_initialized()


@check(tags=["engine"])
def tensors_go_the_way_that_the_configuration_wants(here: Here) -> None:
    way = _core.explain(0)
    assert way.split(":")[0].split()[0] == (here.communicator if here.size > 1 else "self"), way
    assert _core.uses_mpi() == here.over_mpi, way


@check()
def local_and_cross_ranks_follow_from_the_hosts(here: Here) -> None:
    import os

    host = os.environ.get("HVDLITE_HOST_ID", "")
    hosts = hvd.allgather_object(host)
    mates = [r for r in here.ranks if hosts[r] == host]
    assert (hvd.local_rank(), hvd.local_size()) == (mates.index(here.rank), len(mates))
    local_ranks = [hosts[:r].count(hosts[r]) for r in here.ranks]
    across = [r for r in here.ranks if local_ranks[r] == hvd.local_rank()]
    assert hvd.cross_size() == len(across)
    assert sorted(hvd.allgather_object((hvd.cross_rank(), hvd.local_rank()))) == sorted(
        (x, k) for k in set(local_ranks) for x in range(local_ranks.count(k))
    )
    assert hvd.is_homogeneous() == (len({hosts.count(h) for h in hosts}) == 1)


@check()
def a_second_init_changes_nothing(here: Here) -> None:
    hvd.init()
    assert (hvd.rank(), hvd.size()) == (here.rank, here.size)
    assert hvd.allreduce(1.0, op=hvd.Sum) == here.size


@check()
def the_global_process_set_holds_everybody(here: Here) -> None:
    everybody = hvd.global_process_set
    assert (everybody.process_set_id, everybody.ranks) == (0, list(here.ranks))
    assert (everybody.rank(), everybody.size(), everybody.included()) == (
        here.rank,
        here.size,
        True,
    )
