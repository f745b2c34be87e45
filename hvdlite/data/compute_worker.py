"""The program of the compute job: each rank is a worker of tf.data's service.

    hvdliterun -np 8 python -m hvdlite.data.compute_worker service.json

It writes the file, from which the training job learns where the service is, and ends with the
training job.
"""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

import numpy as np

from hvdlite.core.arrays import ops
from hvdlite.core.arrays.objects import allgather_object, broadcast_object
from hvdlite.data import strangers
from hvdlite.data.compute_service import SIDES, TfDataServiceConfig, compute_worker_fn, open_store
from hvdlite.job import basics

_NAME = "TfDataServiceConfig"  # Horovod's name for the broadcast


def main(dispatchers: int, dispatcher_side: str, configfile: str, timeout: int = 60,
         open_ports: bool = False) -> None:  # fmt: skip
    """Runs on each rank. Raises ValueError if the ranks do not divide evenly among dispatchers, and
    RuntimeError if strangers reach the ports of this machine and `open_ports` does not allow it.

    It may run in a thread beside the rank's own work: the job is there when main() returns, and no
    operation of another thread is taken for one of main()'s, which have names.
    """
    basics.init()
    reasons = allgather_object(strangers.why_here(open_ports), name=f"{_NAME}.strangers")
    strangers.refuse_any(reasons)  # on all ranks, or on none
    rank, size = basics.rank(), basics.size()
    if dispatcher_side not in SIDES:
        raise ValueError(f"dispatcher_side={dispatcher_side!r}: one of {', '.join(SIDES)}")
    if dispatchers < 1 or size % dispatchers:
        raise ValueError(f"{size} ranks are no multiple of {dispatchers} dispatchers")
    store, config = None, None
    if rank == 0:
        Path(configfile).unlink(missing_ok=True)  # one that an earlier job has left
        key = secrets.token_bytes(32)
        store, places = open_store(key)
        config = TfDataServiceConfig(
            dispatchers, size // dispatchers, dispatcher_side, places, key, timeout, open_ports
        )
        config.write(configfile)
    try:
        compute_worker_fn(broadcast_object(config, name=_NAME))
        ops.allreduce(np.zeros(1), name=f"{_NAME}.end")  # each rank has heard of the end
    finally:
        if store is not None:
            Path(configfile).unlink(missing_ok=True)
            store.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m hvdlite.data.compute_worker",
        description="A rank of a job that prepares data for another one, with tf.data's service.",
    )
    parser.add_argument("configfile", metavar="CONFIGFILE", help="written for the training job")
    parser.add_argument("--dispatchers", type=int, default=1, help="default: 1")
    parser.add_argument(
        "--dispatcher-side", choices=SIDES, default="compute",
        help="the job whose ranks run the dispatchers; default: compute",
    )  # fmt: skip
    parser.add_argument("--timeout", type=int, default=60, help="seconds for each part to start")
    parser.add_argument(
        "--open-ports", action="store_true",
        help="start it also where strangers reach its ports: it asks for no password, and who "
        "reaches it can run graphs as this user, and so read and write all of this user's files",
    )  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(_arguments()))
    basics.shutdown()
