"""`hvdlite.run(fn)`: a function instead of a command, for notebooks and scripts."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hvdlite.base import knobs
from hvdlite.launch import cli, delivery, direct, machine, plan
from hvdlite.launch.console import Console, of_a_module
from hvdlite.launch.flags import build_parser, read_text
from hvdlite.launch.hosts import Launcher
from hvdlite.launch.job import Job, JobOptions, elsewhere, watchable
from hvdlite.launch.observers import JobObserver
from hvdlite.launch.verdict import Verdict, is_consequence
from hvdlite.rendezvous import StoreClient

if TYPE_CHECKING:
    from hvdlite.launch.elastic.options import ElasticOptions

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
    network_interface: str | Collection[str] | None = None,
    network_interfaces: str | Collection[str] | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
    torch_env: bool | str = False,
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
    have slots, else as this host has GPUs, else cores. `network_interfaces` is a list or a set of
    names, or "eth0,eth1". `torch_env` and `collapse` are the flags of these names;
    `torch_env="hvdlite"` is `--torch-distributed=hvdlite`. The other parameters are those of
    `hvdliterun` (docs/guides/running-functions.md). `disable_cache` is accepted for Horovod's sake.

    With `min_num_proc` or `host_discovery_script` the job is elastic: it goes on while ranks die,
    leave and come (docs/guides/elastic.md). run() then returns the results of the first
    `min_num_proc` ranks of the last generation.
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
    for name, given in (("use_mpi", use_mpi or None), ("mpi_args", mpi_args)):
        if given is not None:
            raise NotImplementedError(
                f"hvdlite.run({name}=...) is not possible: only hvdliterun starts ranks through "
                "mpirun. Leave it out."
            )
    payload = pickled(func, args, kwargs)
    # As on a command line, but without the conversion to text.
    flags = build_parser().parse_args([])
    if num_proc == "auto" and hosts is None and hostfile is None:
        num_proc = machine.count("auto", machine.here(os.environ))[0]
    if min_num_proc is not None and num_proc != "auto":
        num_proc = max(int(num_proc), min_num_proc)
    flags.processes = num_proc
    flags.least, flags.most, flags.script = min_num_proc, max_num_proc, host_discovery_script
    flags.slots_per_host, flags.reset_limit, flags.cooldown = slots, reset_limit, cooldown_range
    flags.torch_env, flags.collapse = torch_env, collapse
    flags.hosts, flags.hostfile = hosts, hostfile
    flags.ssh_port, flags.ssh_identity_file = ssh_port, ssh_identity_file
    flags.output_filename, flags.verbose = output_filename, bool(verbose)
    flags.knob_start_timeout_seconds = None if start_timeout is None else str(start_timeout)
    flags.knob_network_interfaces = _interfaces(network_interfaces)
    return call(payload, flags, executable)


def call(payload: bytes, flags: argparse.Namespace, executable: str | None = None) -> list[Any]:
    """Calls what pickled() has returned in the ranks of a job with these flags, and returns the
    results."""
    flags.command = [executable or sys.executable, "-m", "hvdlite.launch.task"]
    flags.mode = Launcher.HVDLITERUN
    if flags.hosts is None and flags.hostfile is None and flags.script is None:
        flags.hosts = f"localhost:{max(1, int(flags.processes or 1), flags.most or 0)}"
    request = cli.understand(flags, os.environ, read_text)
    for warning in request.warnings:
        warnings.warn(f"hvdlite.run(): {warning}", stacklevel=3)
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


def _interfaces(names: str | Collection[str] | None) -> str | None:
    """Returns the names as a command line has them, with commas between."""
    if names is None or isinstance(names, str):
        return names
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"hvdlite.run(network_interfaces={names!r}): expected names, as in "
            "network_interfaces=['eth0', 'eth1']."
        )
    return ",".join(sorted(names) if isinstance(names, (set, frozenset)) else names) or None


def _renamed(old: str, value: Any, new: str, otherwise: Any) -> Any:
    if value is None:
        return otherwise
    warnings.warn(
        f"hvdlite.run({old}=...) is deprecated, use {new}", DeprecationWarning, stacklevel=3
    )
    return value


def pickled(
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    caller: str = "hvdlite.run",
) -> bytes:
    """Returns what hvdlite.launch.task loads. `caller`: for errors."""
    if not callable(func):
        raise TypeError(
            f"{caller}() needs a function to call, not {type(func).__name__}: "
            f"{caller}(train, num_proc=2)"
        )
    try:
        return delivery.pickled_function((func, tuple(args), dict(kwargs or {})))
    except Exception as error:
        name = getattr(func, "__qualname__", repr(func))
        raise TypeError(
            f"{name}() and its arguments cannot be pickled for the ranks: {error}. Open files, "
            "locks, connections and the like have to be made within the function."
        ) from error


def _call(payload: bytes, request: cli.JobRequest, options: JobOptions) -> list[Any]:
    if request.elastic is not None:
        return _call_elastic(payload, request, request.elastic, options)
    slots = plan.assign(request.hosts, request.processes)
    verdict = Verdict({slot.rank: slot.host for slot in slots})
    results = _Results(payload, slots, verdict, request.command)
    far = elsewhere(slot.host for slot in slots)
    with of_a_module("hvdliterun", timestamps=options.timestamps) as console:
        job = _job(slots, request, options, far, console, verdict, results)
        direct.supervise(job)
    return results.results


def _call_elastic(
    payload: bytes, request: cli.JobRequest, chosen: ElasticOptions, options: JobOptions
) -> list[Any]:
    from hvdlite.launch.elastic import run as elastic
    from hvdlite.launch.elastic.context import ElasticVerdict
    from hvdlite.launch.elastic.delivery import ElasticDelivery

    verdict = ElasticVerdict({})
    results = ElasticDelivery(payload, verdict, chosen.policy.least, request.command)
    far = elsewhere(host.name for host in chosen.hosts)
    with of_a_module("hvdliterun", timestamps=options.timestamps) as console:
        job = _job([], request, options, far, console, verdict, results)
        elastic.supervise(job, chosen, verdict)
    return results.results


def _job(
    slots: Sequence[plan.Slot],
    request: cli.JobRequest,
    options: JobOptions,
    far: Sequence[str],
    console: Console,
    verdict: Verdict,
    results: JobObserver,
) -> Job:
    """The job of a function, whose `results` come with it."""
    observer = watchable(results, request.command, request.environment, verdict, console, options)
    return Job(
        slots, request.command, request.environment, options, far, console, verdict, observer
    )


class _Results(delivery.Delivery):
    """Collects the results of all ranks, in their order."""

    def __init__(
        self,
        payload: bytes,
        slots: Sequence[plan.Slot],
        verdict: Verdict,
        command: Sequence[str],
    ) -> None:
        super().__init__(payload)
        self._slots, self._verdict, self._command = slots, verdict, command

    def collect(self, client: StoreClient) -> list[Any]:
        _raise_failure(client, self._verdict, self._command)
        return [_result(client, slot) for slot in self._slots]


def _result(client: StoreClient, slot: plan.Slot) -> Any:
    try:
        return delivery.result(client, slot.rank, f"rank {slot.rank} on {slot.host}")
    except TimeoutError:
        raise RuntimeError(
            f"rank {slot.rank} on {slot.host} ended without a result: the function has ended the "
            "process itself, with sys.exit() or os._exit()"
        ) from None


def _raise_failure(client: StoreClient, verdict: Verdict, command: Sequence[str]) -> None:
    """Raises the failure, if a rank has failed."""
    delivery.interrupted_by(verdict.interrupted)
    if verdict.status() == 0:
        return
    sentence = verdict.sentence(command).replace("hvdliterun: ", "")
    rank = verdict.culprit()
    if rank is None:
        raise RuntimeError(sentence)
    report = delivery.failure_of(client, rank)
    if report is not None and is_consequence(report.last_line.encode()):
        # The cause is reported before the others learn of it, but its process may take longer to
        # end.
        others = ((other, delivery.failure_of(client, other)) for other in verdict.hosts)
        causes = [
            (other, it)
            for other, it in others
            if it is not None and not is_consequence(it.last_line.encode())
        ]
        rank, report = causes[0] if causes else (rank, report)
    if report is None:
        raise RuntimeError(sentence)  # it died without a report
    what = f"rank {rank} on {verdict.hosts[rank]} raised {report.last_line}"
    delivery.fail(what, f"rank {rank}", report)
