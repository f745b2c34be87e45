"""tf.data's service on the ranks of another job, which prepares data for the one that trains.

    hvdliterun -np 8 python -m hvdlite.data.compute_worker service.json
    hvdliterun -np 4 python train.py

    config = TfDataServiceConfig.read("service.json", wait_for_file_creation=True)
    dataset = dataset.send_to_data_service(config, hvd.rank(), hvd.size())

The two jobs meet at a store, which rank 0 of the first one opens. Its addresses and its key are in
the file, which only its owner can read.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import tensorflow as tf

from hvdlite.base import private_file
from hvdlite.data import strangers
from hvdlite.job import basics
from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.server import StoreServer

__all__ = ["TfDataServiceConfig", "compute_worker_fn", "send_to_data_service", "tf_data_service"]

SIDES = ("training", "compute")
_POLL_SECONDS = 0.2
_SHUTDOWN = "service/shutdown"


class ComputeClient:
    """A connection with the store of the compute job, by which the two jobs talk. It proves that it
    knows the key."""

    def __init__(self, store: list[str], key: bytes, timeout: float) -> None:
        places = [addresses.parse_address(each, "addresses") for each in store]
        try:
            _, self._client = addresses.reach(places, key, timeout)
        except ConnectionError as error:
            raise ConnectionError(
                "the tf.data service does not answer: is the job of "
                f"`python -m hvdlite.data.compute_worker` still running? {error}"
            ) from None
        self._jobs = 0

    def register_dispatcher(self, id: int, dispatcher_address: str) -> None:
        self._client.set(f"service/dispatcher/{id}", dispatcher_address.encode())

    def wait_for_dispatcher_registration(self, id: int, timeout: float | None) -> str:
        """Returns "host:port" of the dispatcher. `timeout`: seconds, or None for no limit."""
        try:
            return self._client.get(f"service/dispatcher/{id}", timeout).decode()
        except TimeoutError:
            raise TimeoutError(
                f"dispatcher {id} of the tf.data service has not started within {timeout} s"
            ) from None

    def register_worker_for_dispatcher(self, dispatcher_id: int, worker_id: int) -> None:
        del worker_id
        number = self._client.add(f"service/count/{dispatcher_id}", 1) - 1
        self._client.set(f"service/worker/{dispatcher_id}/{number}", b"1")

    def wait_for_dispatcher_worker_registration(
        self, dispatcher_id: int, timeout: float | None, workers: int = 1
    ) -> None:
        """Until so many workers have registered."""
        try:
            self._client.collect(f"service/worker/{dispatcher_id}", workers, timeout)
        except TimeoutError:
            raise TimeoutError(
                f"not all {workers} workers of dispatcher {dispatcher_id} of the tf.data service "
                f"have started within {timeout} s"
            ) from None

    def next_job(self) -> str:
        """A name for the next dataset that ranks share, the same on each rank."""
        self._jobs += 1
        return f"job {self._jobs}"

    def own_address(self) -> str:
        """An address of this machine that leads here from the others."""
        own, peer = self._client.socket.getsockname()[0], self._client.socket.getpeername()[0]
        found = addresses.of_this_machine() if own == peer else []
        plain = [found[0] if found else own][0].removeprefix("::ffff:")
        return f"[{plain}]" if ":" in plain else plain

    def shutdown(self) -> None:
        """The training job has ended, and the compute job ends, too."""
        self._client.set(_SHUTDOWN, b"1")

    def wait_for_shutdown(self) -> None:
        self._client.get(_SHUTDOWN)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> ComputeClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def open_store(key: bytes) -> tuple[StoreServer, list[str]]:
    """The store, and the addresses at which it may be reached."""
    server = StoreServer.reached(key, everywhere=True).start()
    hosts = [*addresses.of_this_machine(), "127.0.0.1"]
    return server, [addresses.join_address(host, server.address[1]) for host in hosts]


@dataclass(frozen=True)
class TfDataServiceConfig:
    """How a training job finds the service.

    `dispatchers`, each with `workers_per_dispatcher`, run on the ranks of the compute job, or with
    `dispatcher_side="training"` on the first ranks of the training job. `addresses` are
    "host:port" of the store, and `key` is its secret. `timeout`: seconds for each part to start.
    `open_ports`: start the service also where strangers reach its ports, which ask for no password.
    """

    dispatchers: int
    workers_per_dispatcher: int
    dispatcher_side: str
    addresses: Any
    key: bytes = field(repr=False)
    timeout: int = 60
    open_ports: bool = False

    def compute_client(self, verbose: int = 1) -> ComputeClient:
        """A connection with the store. Raises ConnectionError if the compute job does not run."""
        del verbose
        return ComputeClient(list(self.addresses), self.key, self.timeout)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"key": self.key.hex()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> TfDataServiceConfig:
        return TfDataServiceConfig(**(values | {"key": bytes.fromhex(values["key"])}))

    def write(self, filename: str) -> None:
        """Only the owner can read the file, which has the key in it."""
        private_file.write(filename, json.dumps(self.to_dict()).encode())

    @staticmethod
    def read(filename: str, wait_for_file_creation: bool = False) -> TfDataServiceConfig:
        while wait_for_file_creation and not os.path.exists(filename):
            time.sleep(_POLL_SECONDS)
        with open(filename) as file:
            return TfDataServiceConfig.from_dict(json.load(file))


@dataclass
class _Joined:
    """What this process has of a service that it uses."""

    client: ComputeClient
    target: str
    dispatcher: Any = None

    def leave(self, shuts_down: bool) -> None:
        if shuts_down:
            self.client.shutdown()
        if self.dispatcher is not None:
            self.dispatcher._stop()
        self.client.close()


_joined: dict[tuple[Any, int], _Joined] = {}


@contextmanager
def tf_data_service(compute_config: TfDataServiceConfig, rank: int) -> Iterator[str]:
    """The address of this rank's dispatcher, for tf.data.experimental.service.distribute().

    When rank 0 leaves the block, the service ends. So all ranks have to have their data before.
    """
    joined = _join(compute_config, rank)
    try:
        yield joined.target
    finally:
        joined.leave(shuts_down=rank == 0)


def send_to_data_service(dataset: Any, compute_config: TfDataServiceConfig, rank: int,
                         size: int | None = None, processing_mode: str = "distributed_epoch",
                         reuse_dataset: bool = False,
                         round_robin: bool = False) -> Any:  # fmt: skip
    """The dataset, prepared by the service. Also a method of tf.data.Dataset.

    Each rank gets the whole dataset. With `reuse_dataset` its elements are shared out: the ranks
    take what comes, or with `round_robin`, which needs an endless dataset, one each in turn. The
    service ends when rank 0's process does.
    """
    if round_robin and (not reuse_dataset or size is None):
        raise ValueError("round_robin=True needs reuse_dataset=True and size=hvd.size()")
    if reuse_dataset and compute_config.dispatchers > 1:
        raise ValueError(
            f"reuse_dataset=True needs one dispatcher, and this service has "
            f"{compute_config.dispatchers}"
        )
    key = (tuple(compute_config.addresses), rank)
    if key not in _joined:
        _joined[key] = _join(compute_config, rank)
        atexit.register(_joined[key].leave, rank == 0)
    joined, distribute = _joined[key], tf.data.experimental.service.distribute
    name = joined.client.next_job() if reuse_dataset else None
    in_turn = {"consumer_index": rank, "num_consumers": size} if round_robin else {}
    return dataset.apply(distribute(processing_mode, joined.target, job_name=name, **in_turn))


tf.data.Dataset.send_to_data_service = send_to_data_service


def _join(config: TfDataServiceConfig, rank: int) -> _Joined:
    client = config.compute_client()
    try:
        dispatcher = None
        if config.dispatcher_side == "training" and rank < config.dispatchers:
            strangers.refuse(config.open_ports, warns=rank == 0)
            dispatcher = _start_dispatcher(client, rank)
        number = rank % config.dispatchers
        address = client.wait_for_dispatcher_registration(number, config.timeout)
        client.wait_for_dispatcher_worker_registration(
            number, config.timeout, config.workers_per_dispatcher
        )
    except BaseException:
        client.close()
        raise
    return _Joined(client, f"grpc://{address}", dispatcher)


def _start_dispatcher(client: ComputeClient, number: int) -> Any:
    server = tf.data.experimental.service.DispatchServer()
    port = server.target.rpartition(":")[2]
    client.register_dispatcher(number, f"{client.own_address()}:{port}")
    return server


def compute_worker_fn(compute_config: TfDataServiceConfig) -> None:
    """What each rank of the compute job does until the training job has ended. Raises RuntimeError
    where strangers reach the ports of this machine, unless `open_ports` of the config allows
    it."""
    rank = basics.rank()
    strangers.refuse(compute_config.open_ports, warns=rank == 0)
    number, place = divmod(rank, compute_config.workers_per_dispatcher)
    with compute_config.compute_client() as client:
        is_here = compute_config.dispatcher_side == "compute"
        dispatcher = _start_dispatcher(client, number) if is_here and place == 0 else None
        # A dispatcher of the training job comes when that job does.
        patience = compute_config.timeout if is_here else None
        address = client.wait_for_dispatcher_registration(number, patience)
        worker = tf.data.experimental.service.WorkerServer(
            tf.data.experimental.service.WorkerConfig(
                dispatcher_address=address, worker_address=f"{client.own_address()}:%port%"
            )
        )
        client.register_worker_for_dispatcher(number, rank)
        client.wait_for_shutdown()
        worker._stop()
        if dispatcher is not None:
            dispatcher._stop()
