"""How `hvdlite.run(fn)` takes a function to the ranks, and brings back results and exceptions.

All of it goes through the job's store. A rank is known by a number: its rank, or in an elastic job
its member's number.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import signal
import sys
import sysconfig
from collections import ChainMap
from types import CodeType
from typing import Any, NamedTuple, NoReturn

from hvdlite.launch import task
from hvdlite.launch.observers import JobObserver
from hvdlite.rendezvous import StoreClient, StoreServer


class RankFailure(NamedTuple):
    """The report of a rank that has raised an exception."""

    last_line: str
    trace: str
    pickled: bytes | None  # the exception itself


class Delivery(JobObserver):
    """Stores the function before the ranks start, and collects results at the end. A derived class
    chooses the results."""

    def __init__(self, payload: bytes) -> None:
        self.results: list[Any] = []
        self._payload = payload
        self._where: tuple[tuple[str, int], bytes] | None = None

    def begin(self, store: StoreServer, secret: bytes) -> None:
        self._where = ("localhost", store.address[1]), secret
        with StoreClient(*self._where) as client:
            client.set(task.PROGRAM, program())
            task.put_blob(client, task.FUNCTION, self._payload)

    def end(self) -> None:
        assert self._where is not None
        with StoreClient(*self._where) as client:
            self.results = self.collect(client)

    def collect(self, client: StoreClient) -> list[Any]:
        """Returns the results, or raises the failure."""
        raise NotImplementedError


def result(client: StoreClient, number: int, who: str) -> Any:
    """Returns a rank's result, and deletes it. Raises TimeoutError if there is none."""
    data = task.get_blob(client, task.result_key(number), 0)
    client.delete(task.result_key(number))
    try:
        return pickle.loads(data)
    except Exception as error:
        raise RuntimeError(
            f"the result of {who} cannot be unpickled here: {type(error).__name__}: {error}"
        ) from error


def failure_of(client: StoreClient, number: int) -> RankFailure | None:
    """Returns what a rank reported of its exception; None: nothing."""
    try:
        return RankFailure(*pickle.loads(task.get_blob(client, task.failure_key(number), 0)))
    except TimeoutError:
        return None


def fail(what: str, who: str, report: RankFailure) -> NoReturn:
    """Raises the failure of a rank, whose cause is the rank's own exception."""
    raise RuntimeError(f"{what}\n\nOn {who}:\n{report.trace}") from _exception(report.pickled)


def interrupted_by(number: int) -> None:
    """Raises the signal that was held back until the ranks had ended; 0: none was."""
    if number:
        signal.raise_signal(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt


def program() -> bytes:
    """Returns how this interpreter finds modules, if another one of the same kind would not by
    itself."""
    usual = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    path = [os.path.abspath(entry) for entry in sys.path]
    own = [
        entry
        for entry in path
        if not entry.endswith(".zip") and not any(_below(entry, top) for top in usual)
    ]
    return json.dumps({"python": sys.version_info[:2], "path": own}).encode()


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + os.sep)


def _exception(data: bytes | None) -> BaseException | None:
    """Returns a rank's exception, if this process can unpickle it."""
    try:
        error = pickle.loads(data) if data is not None else None
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None


# cloudpickle's name for the file of every function since 3.1.3
_WITHOUT_FILE = "<dynamic-code>"


def pickled_function(value: Any) -> bytes:
    """Like cloudpickle.dumps(), but keeps the names of the functions' files, so a traceback of a
    rank shows its lines."""
    import cloudpickle  # hvdliterun does not need it

    usual = cloudpickle.Pickler.dispatch_table

    def with_file(code: CodeType) -> tuple[Any, ...]:
        make, parts, *rest = usual[CodeType](code)
        named = (code.co_filename if part == _WITHOUT_FILE else part for part in parts)
        return (make, tuple(named), *rest)

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table = ChainMap({CodeType: with_file}, usual)

    buffer = io.BytesIO()
    Pickler(buffer).dump(value)
    return buffer.getvalue()
