"""What the two jobs of a tf.data service tell each other, at the store of the compute job."""

from __future__ import annotations

from hvdlite.rendezvous import addresses
from hvdlite.rendezvous.server import StoreServer

_SHUTDOWN = "service/shutdown"


class ComputeClient:
    """A connection with the store of the compute job. It proves that it knows the key."""

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
