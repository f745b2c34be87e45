"""Which rank each actor has, and its environment. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hvdlite.launch import plan
from hvdlite.rendezvous.documents import rank_numbers


@dataclass(frozen=True)
class ActorIdentity:
    """What an actor reports about itself. `host`: equal for actors that may share memory."""

    node: str  # Ray's id
    host: str
    name: str  # of the host, for people
    gpus: tuple[str, ...] = ()  # that Ray has given to it


def order(found: Sequence[ActorIdentity]) -> list[int]:
    """Returns the actors in the order of their ranks.

    Those of one host are neighbours, in the order of their GPUs, so the n-th of them uses the n-th
    GPU that all of them see. The host of the first actor comes first.
    """
    hosts = list(dict.fromkeys(each.host for each in found))

    def key(number: int) -> tuple[int, list[tuple[bool, int, str]], int]:
        each = found[number]
        return hosts.index(each.host), [_order_of_gpu(gpu) for gpu in each.gpus], number

    return sorted(range(len(found)), key=key)


def environments(ranks: Sequence[ActorIdentity]) -> list[dict[str, str]]:
    """Returns what each rank finds in its environment, without the place to meet.

    The ranks of a host see the GPUs of all of them, as `hvd.local_rank()` and copies from GPU to
    GPU need it.
    """
    taken = rank_numbers([(rank, each.host, rank) for rank, each in enumerate(ranks)])
    shared: dict[str, set[str]] = {}
    for each in ranks:
        shared.setdefault(each.host, set()).update(each.gpus)
    told = []
    for rank, each in enumerate(ranks):
        own = plan.numbers(**vars(taken[rank])) | {"HOROVOD_HOSTNAME": each.name}
        if gpus := sorted(shared[each.host], key=_order_of_gpu):
            own["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        told.append(own)
    return told


def _order_of_gpu(gpu: str) -> tuple[bool, int, str]:
    return (False, int(gpu), "") if gpu.isdecimal() else (True, 0, gpu)
