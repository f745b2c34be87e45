"""`hvdlite.run(fn)`: a function instead of a command, for notebooks and scripts."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hvdlite.base import knobs
from hvdlite.launch import blobs, cli, direct, job, machine, output, plan, task
from hvdlite.launch.console import Console
from hvdlite.launch.flags import build_parser, read_text
from hvdlite.launch.verdict import Verdict, is_consequence
from hvdlite.launch.watch import JobObserver
from hvdlite.rendezvous import StoreClient, StoreServer

__all__ = ["run"]


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int | str = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: float | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: bool | int | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
    torch_env: bool = False,
    collapse: bool = False,
) -> list[Any]:
    """Calls `func(*args, **kwargs)` in `num_proc` new processes, the ranks of one job. Returns the
    results in the order of the ranks.

    cloudpickle pickles the function, so lambdas and functions of a notebook work. `func` calls
    `hvd.init()` itself, if it needs it.

    The ranks' output appears in this process's `sys.stdout` and `sys.stderr`, line by line with
    `[rank]<stdout>:` in front. A rank that raises an exception ends the others. run() then raises a
    RuntimeError with the rank's number, host and traceback; its cause is the rank's exception.
    Ctrl-C ends all ranks, and run() raises KeyboardInterrupt.

    The ranks have this process's environment and working directory. `executable` is their Python
    interpreter, of the same version as this one. `num_proc="auto"` starts as many ranks as `hosts`
    have slots, else as this host has GPUs, else cores. `torch_env` and `collapse` are the flags of
    these names. The other parameters are those of `hvdliterun` (docs/guides/running-functions.md).
    `disable_cache` is accepted for Horovod's sake.
    """
    num_proc = _renamed("np", np, "num_proc", num_proc)
    min_num_proc = _renamed("min_np", min_np, "min_num_proc", min_num_proc)
    max_num_proc = _renamed("max_np", max_np, "max_num_proc", max_num_proc)
    network_interfaces = _renamed(
        "network_interface", network_interface, "network_interfaces", network_interfaces
    )
    _check(args, num_proc, hosts)
    if hosts is not None and hostfile is not None:
        raise ValueError("hosts and hostfile exclude one another: give the hosts in one of them.")
    if use_gloo and use_mpi:
        raise ValueError("use_gloo and use_mpi exclude one another.")
    _refuse(
        "elastic training comes with a later version",
        min_num_proc=min_num_proc,
        max_num_proc=max_num_proc,
        host_discovery_script=host_discovery_script,
        slots=slots,
        reset_limit=reset_limit,
        cooldown_range=cooldown_range,
    )
    _refuse(
        "only hvdliterun starts ranks through mpirun", use_mpi=use_mpi or None, mpi_args=mpi_args
    )
    payload = _pickled(func, args, kwargs)
    # As on a command line, but without the conversion to text.
    flags = build_parser().parse_args([])
    flags.command = [executable or sys.executable, "-m", "hvdlite.launch.task"]
    flags.mode = "gloo"
    if num_proc == "auto" and hosts is None and hostfile is None:
        num_proc = machine.count("auto", machine.here(os.environ))[0]
    flags.processes = num_proc
    flags.hosts = (
        hosts if hosts is not None or hostfile is not None else f"localhost:{max(1, int(num_proc))}"
    )
    flags.torch_env, flags.collapse = torch_env, collapse
    flags.hostfile = hostfile
    flags.ssh_port, flags.ssh_identity_file = ssh_port, ssh_identity_file
    flags.output_filename, flags.verbose = output_filename, bool(verbose)
    flags.knob_start_timeout_seconds = None if start_timeout is None else str(start_timeout)
    flags.knob_network_interfaces = network_interfaces
    request = cli.understand(flags, os.environ, read_text)
    values = knobs.resolve({**os.environ, **request.environment})
    return _call(payload, request, cli.options(flags, values))


def _check(args: Any, num_proc: Any, hosts: Any) -> None:
    """Checks arguments that would otherwise cause an error far below."""
    if num_proc != "auto" and (isinstance(num_proc, bool) or not hasattr(num_proc, "__index__")):
        raise TypeError(f"hvdlite.run(num_proc={num_proc!r}): expected a whole number, or 'auto'.")
    if isinstance(args, (str, bytes)) or not isinstance(args, Iterable):
        raise TypeError(
            f"hvdlite.run(args={args!r}): expected the function's arguments in a tuple, as in "
            "args=(3,)."
        )
    if hosts is not None and not isinstance(hosts, str):
        raise TypeError(
            f"hvdlite.run(hosts={hosts!r}): expected a text, as in hosts='node1:4,node2:4'."
        )


def _renamed(old: str, value: Any, new: str, otherwise: Any) -> Any:
    if value is None:
        return otherwise
    warnings.warn(
        f"hvdlite.run({old}=...) is deprecated, use {new}", DeprecationWarning, stacklevel=3
    )
    return value


def _refuse(why: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(
                f"hvdlite.run({name}=...) is not possible: {why}. Leave it out."
            )


def _pickled(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> bytes:
    if not callable(func):
        raise TypeError(
            f"hvdlite.run() needs a function to call, not {type(func).__name__}: "
            "hvdlite.run(train, num_proc=2)"
        )
    from hvdlite.launch import pickling  # imports cloudpickle, which hvdliterun does not need

    try:
        return pickling.dumps((func, tuple(args), dict(kwargs or {})))
    except Exception as error:
        name = getattr(func, "__qualname__", repr(func))
        raise TypeError(
            f"{name}() and its arguments cannot be pickled for the ranks: {error}. Open files, "
            "locks, connections and the like have to be made within the function."
        ) from error


def _program() -> bytes:
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


def _call(payload: bytes, request: cli.Request, options: job.Options) -> list[Any]:
    slots = plan.assign(request.hosts, request.processes)
    verdict = Verdict({slot.rank: slot.host for slot in slots})
    delivery = _Delivery(payload, slots, verdict, request.command)
    far = job.elsewhere(slot.host for slot in slots)
    console = Console(
        output.TextWriter(sys.stdout), output.TextWriter(sys.stderr), options.timestamps
    )
    this = job.Job(
        slots, request.command, request.environment, options, far, console, verdict, delivery
    )
    try:
        direct.supervise(this)
    finally:
        try:
            console.flush()
        finally:
            console.close()
    return delivery.results


class _Delivery(JobObserver):
    """Takes the function to the ranks and collects their results."""

    def __init__(
        self, payload: bytes, slots: Sequence[plan.Slot], verdict: Verdict, command: Sequence[str]
    ) -> None:
        self.results: list[Any] = []
        self._payload, self._slots, self._verdict, self._command = payload, slots, verdict, command
        self._where: tuple[tuple[str, int], bytes] | None = None

    def begin(self, store: StoreServer, secret: bytes) -> None:
        self._where = ("localhost", store.address[1]), secret
        with StoreClient(*self._where) as client:
            client.set(task.PROGRAM, _program())
            blobs.send(client, task.FUNCTION, self._payload)

    def end(self) -> None:
        assert self._where is not None
        with StoreClient(*self._where) as client:
            _raise_failure(client, self._verdict, self._command)
            self.results = [_result(client, slot) for slot in self._slots]


def _result(client: StoreClient, slot: plan.Slot) -> Any:
    try:
        data = blobs.receive(client, task.result_key(slot.rank), 0)
    except TimeoutError:
        raise RuntimeError(
            f"rank {slot.rank} on {slot.host} ended without a result: the function has ended the "
            "process itself, with sys.exit() or os._exit()"
        ) from None
    client.delete(task.result_key(slot.rank))
    try:
        return pickle.loads(data)
    except Exception as error:
        raise RuntimeError(
            f"the result of rank {slot.rank} on {slot.host} cannot be unpickled here: "
            f"{type(error).__name__}: {error}"
        ) from error


def _raise_failure(client: StoreClient, verdict: Verdict, command: Sequence[str]) -> None:
    """Raises the failure, if a rank has failed."""
    if verdict.interrupted:
        # It was held back until the ranks had ended. Now it takes its effect in this program.
        signal.raise_signal(verdict.interrupted)
        if verdict.interrupted == signal.SIGINT:
            raise KeyboardInterrupt
    if verdict.status() == 0:
        return
    sentence = verdict.sentence(command).replace("hvdliterun: ", "")
    rank = verdict.culprit()
    if rank is None:
        raise RuntimeError(sentence)
    told = _told(client, rank)
    if told is not None and is_consequence(told[0].encode()):
        # The cause is reported before the others learn of it, but its process may take longer to
        # end.
        others = ((other, _told(client, other)) for other in verdict.hosts)
        causes = [
            (other, it)
            for other, it in others
            if it is not None and not is_consequence(it[0].encode())
        ]
        rank, told = causes[0] if causes else (rank, told)
    if told is None:
        raise RuntimeError(sentence)  # it died without a report
    last_line, trace, itself = told
    raise RuntimeError(
        f"rank {rank} on {verdict.hosts[rank]} raised {last_line}\n\nOn rank {rank}:\n{trace}"
    ) from _exception(itself)


def _told(client: StoreClient, rank: int) -> tuple[str, str, bytes | None] | None:
    """Returns the report of a rank that has raised an exception."""
    try:
        told: tuple[str, str, bytes | None] = pickle.loads(
            blobs.receive(client, task.failure_key(rank), 0)
        )
    except TimeoutError:
        return None
    return told


def _exception(data: bytes | None) -> BaseException | None:
    """Returns a rank's exception, if this process can unpickle it."""
    try:
        error = pickle.loads(data) if data is not None else None
    except Exception:
        return None
    return error if isinstance(error, BaseException) else None
