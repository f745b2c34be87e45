"""One rank of `hvdlite.run(fn)`: fetches the function, calls it, and stores the result.

It unpickles only what came over a connection whose other end has proved that it knows the job's
secret.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import traceback
from typing import Any

from hvdlite.launch import environment
from hvdlite.rendezvous import StoreClient

# The caller stores these before the ranks start.
# JSON: "python", the version that has pickled the function, and "path", the module search path
PROGRAM = "run/program"
FUNCTION = "run/function"  # the pickle of (function, args, kwargs)

_FETCH_SECONDS = 60.0
_PIECE_BYTES = 32 << 20


def put_blob(client: StoreClient, key: str, data: bytes) -> None:
    """Puts bytes of any size into the store, whose values have a limit: `key/0`, `key/1`, ... and
    then `key` with their number. A key can be used once."""
    view = memoryview(data)
    starts = range(0, len(view), _PIECE_BYTES)
    for number, start in enumerate(starts):
        client.set(f"{key}/{number}", bytes(view[start : start + _PIECE_BYTES]))
    client.set(key, b"%d" % len(starts))


def get_blob(client: StoreClient, key: str, timeout: float) -> bytes:
    """Returns what put_blob() put there; it stays in the store. Raises TimeoutError if it does
    not come in time."""
    count = int(client.get(key, timeout))
    return b"".join(client.get(f"{key}/{number}", timeout) for number in range(count))


def result_key(number: int) -> str:
    """Returns the key for the pickle of the result of a rank, or of a member."""
    return f"run/result/{number}"


def failure_key(number: int) -> str:
    """Returns the key for the report of a rank or member that has raised: the pickle of (its last
    line, the traceback, the pickled exception or None)."""
    return f"run/failure/{number}"


def _number(me: environment.Identity) -> int:
    """Returns the rank's number in the store. In an elastic job it is the member's, because ranks
    change there."""
    return int(os.environ.get("HVDLITE_MEMBER") or me.rank)


def _load(client: StoreClient) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    program = json.loads(client.get(PROGRAM, _FETCH_SECONDS))
    theirs, ours = tuple(program["python"]), sys.version_info[:2]
    if theirs != ours:
        raise RuntimeError(
            f"the function was pickled by Python {theirs[0]}.{theirs[1]}, but this rank runs "
            f"Python {ours[0]}.{ours[1]} "
            f"({sys.executable}): code can only travel between equal versions"
        )
    # `python -m` has put the working directory first; the caller may not have it there.
    own = [entry for entry in sys.path if entry not in (*program["path"], os.getcwd())]
    sys.path[:] = program["path"] + own
    try:
        loaded: tuple[Any, tuple[Any, ...], dict[str, Any]] = pickle.loads(
            get_blob(client, FUNCTION, _FETCH_SECONDS)
        )
    except Exception as error:
        raise RuntimeError(
            f"the function cannot be loaded here: {type(error).__name__}: {error}"
        ) from error
    return loaded


def _pickled(result: Any) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(result))
    except Exception as error:
        kind = f"{type(result).__module__}.{type(result).__qualname__}"
        raise TypeError(f"the result, a {kind}, cannot be pickled: {error}") from error


def _tell(me: environment.Identity, error: BaseException) -> str:
    """Stores the failure, then does what the interpreter does with an uncaught exception. Returns
    the line that names it."""
    if error.__traceback__ is not None:
        error = error.with_traceback(error.__traceback__.tb_next)  # without this file's own frame
    try:
        import cloudpickle

        itself = cloudpickle.dumps(error)
    except Exception:
        itself = None
    last_line = traceback.format_exception_only(error)[-1].strip()
    text = "".join(traceback.format_exception(error))
    assert me.rendezvous is not None and me.secret is not None
    try:
        with StoreClient(me.rendezvous, me.secret) as client:
            put_blob(client, failure_key(_number(me)), pickle.dumps((last_line, text, itself)))
    finally:
        sys.excepthook(type(error), error, error.__traceback__)
    return last_line


def run(me: environment.Identity) -> tuple[int, str]:
    """Returns the exit status of this rank, and the line that names its exception."""
    assert me.rendezvous is not None and me.secret is not None
    try:
        with StoreClient(me.rendezvous, me.secret) as client:
            function, args, kwargs = _load(client)
        result = _pickled(function(*args, **kwargs))
        with StoreClient(me.rendezvous, me.secret) as client:
            put_blob(client, result_key(_number(me)), result)
    except SystemExit:
        raise
    except BaseException as error:
        return 1, _tell(me, error)
    return 0, ""


def main() -> int:
    """Returns the exit status."""
    me = environment.discover(os.environ)
    if me.rendezvous is None or me.secret is None:
        print(
            "hvdlite.launch.task is what hvdlite.run(fn) starts; it does nothing by itself",
            file=sys.stderr,
        )
        return 2
    return run(me)[0]


if __name__ == "__main__":
    sys.exit(main())
