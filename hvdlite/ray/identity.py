"""What a process of Ray reports about itself, and how it becomes a rank."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import ray

from hvdlite.job import basics
from hvdlite.launch import machine, secret
from hvdlite.ray.rank_order import ActorIdentity
from hvdlite.rendezvous import addresses

_WHERE, _TIMEOUT = "HVDLITE_RENDEZVOUS", "HVDLITE_START_TIMEOUT"
_LEAVE_SECONDS = 1.0
# Of the job's secret. It stays open, because init() may be called again.
_descriptor: int | None = None


def own() -> ActorIdentity:
    """Returns where this process is, and the GPUs that Ray has given to it."""
    return ActorIdentity(
        str(ray.get_runtime_context().get_node_id()),
        machine.host_identity(os.environ),
        f"{socket.gethostname()} ({ray.util.get_node_ip_address()})",
        gpus(),
    )


def gpus() -> tuple[str, ...]:
    found = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    return tuple(str(gpu) for gpu in found)


def join(environment: Mapping[str, str], key: bytes) -> None:
    """From now on, `hvd.init()` joins the job whose secret is `key`, as the rank that these
    variables name. Raises ConnectionError if the store is not reached from here."""
    global _descriptor
    if _descriptor is not None:
        os.close(_descriptor)
    _descriptor = secret.store(key)
    os.environ.update(environment)
    os.environ[secret.DESCRIPTOR_VARIABLE] = str(_descriptor)
    # Of the driver's addresses, the one that leads there from here.
    several = addresses.parse_addresses(environment[_WHERE], _WHERE)
    address, client = addresses.reach(several, key, float(environment[_TIMEOUT]))
    client.close()
    os.environ[_WHERE] = addresses.join_address(*address)


def leave() -> None:
    """Ends this process's part in a job that has failed or is over."""
    if basics.is_initialized():
        basics.shutdown(_LEAVE_SECONDS)
