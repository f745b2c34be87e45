"""How the ranks of each launcher meet."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping

from hvdlite.launch import nodelist
from hvdlite.launch import secret as job_secret
from hvdlite.launch.environment.identity import (
    Asked,
    AtPorts,
    AtStore,
    Meeting,
    Numbers,
    OnThisHost,
    OverHttp,
    OverMpi,
    OverTorchStore,
)
from hvdlite.launch.environment.sources import HOROVOD, HVDLITE, PMIX, SLURM, TORCHRUN, Source
from hvdlite.rendezvous.addresses import join_address, parse_address, parse_addresses

ALLOW_OPEN_JOB = "HVDLITE_ALLOW_OPEN_JOB"
_RENDEZVOUS = "HVDLITE_RENDEZVOUS"
_HTTP = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")


def refuse_without_numbers(environ: Mapping[str, str], asked: Asked) -> None:
    """Raises an error if there is a place to meet and no number for this rank: a launcher between
    ours and the rank has lost the numbers."""
    if is_given(environ, asked):
        given = _RENDEZVOUS if environ.get(_RENDEZVOUS) else "init(rendezvous=...)"
        raise ValueError(
            f"{given} is set, but neither {' and '.join(HVDLITE.global_)} nor another launcher's "
            "variables are: which rank is this process, and of how many? Start it with hvdliterun, "
            "or call init(rank=..., size=...)."
        )


def is_allowed(environ: Mapping[str, str], name: str) -> bool:
    """Whether the user has set this variable to yes."""
    return environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def is_given(environ: Mapping[str, str], asked: Asked) -> bool:
    """Whether a place to meet is named."""
    return bool(environ.get(_RENDEZVOUS)) or asked.rendezvous is not None


def choose(
    environ: Mapping[str, str], asked: Asked, source: Source | None, numbers: Numbers
) -> Meeting:
    """Returns the way to meet for several ranks that `source` has numbered. If `source` is None,
    the arguments of init() number them."""
    if asked.rendezvous is not None:
        return AtStore(parse_addresses(asked.rendezvous, "rendezvous"), may_open=True)
    if environ.get(_RENDEZVOUS):
        return AtStore(parse_addresses(environ[_RENDEZVOUS], _RENDEZVOUS))
    if source is None:
        raise ValueError(
            f"init(size={asked.size}) needs a place to meet: pass rendezvous='host:port', an "
            f"address of rank 0's host that the others reach, or set {_RENDEZVOUS}."
        )
    if source is HVDLITE:
        size = environ[source.global_[1]]
        raise ValueError(
            f"HVDLITE_SIZE={size}, but {_RENDEZVOUS}=host:port is not set: ranks could not meet."
        )
    here = numbers.local_size == numbers.size
    if source is HOROVOD:
        return _with_horovodrun(environ, here)
    if source is TORCHRUN:
        return _with_torchrun(environ, here)
    if source is SLURM or (source is PMIX and SLURM.is_here(environ)):
        return _in_slurm(environ, here)
    return OverMpi()


def secret_of(
    environ: Mapping[str, str],
    asked: Asked,
    meeting: Meeting,
    read_secret: Callable[[Mapping[str, str]], bytes | None],
) -> bytes | None:
    """Returns the secret that the user or the launcher has given to all ranks; None: one is created
    when they meet."""
    if asked.secret is not None:
        if isinstance(asked.secret, str):
            return job_secret.parse(asked.secret)
        if len(asked.secret) != job_secret.SIZE:
            raise ValueError(
                f"init(secret=...) has to have {job_secret.SIZE} bytes, or {2 * job_secret.SIZE} "
                "hex digits."
            )
        return bytes(asked.secret)
    secret = read_secret(environ)
    if secret is None and isinstance(meeting, AtStore):
        if meeting.may_open:
            raise ValueError(
                "init(rendezvous=...) needs a secret: pass secret=secrets.token_hex(32), the same "
                f"to all ranks, or set {job_secret.TEXT_VARIABLE}."
            )
        raise ValueError(
            f"{_RENDEZVOUS} is set, but neither {job_secret.DESCRIPTOR_VARIABLE} nor "
            f"{job_secret.TEXT_VARIABLE}: the other ranks refuse a process without the job's "
            "secret."
        )
    return secret


def _with_horovodrun(environ: Mapping[str, str], here: bool) -> Meeting:
    missing = [name for name in _HTTP if not environ.get(name)]
    if missing:
        raise ValueError(
            f"HOROVOD_SIZE={environ['HOROVOD_SIZE']}, but {' and '.join(missing)} not set: ranks "
            "could not meet. horovodrun sets them; or start the program with hvdliterun."
        )
    if here:
        return OnThisHost(_facts(environ, *_HTTP))
    host, port = (environ[name] for name in _HTTP)
    return OverHttp(parse_address(join_address(host, port), "HOROVOD_GLOO_RENDEZVOUS_ADDR:PORT"))


def _with_torchrun(environ: Mapping[str, str], here: bool) -> Meeting:
    host = environ["MASTER_ADDR"]
    address = parse_address(join_address(host, environ["MASTER_PORT"]), "MASTER_ADDR:MASTER_PORT")
    # A restarted attempt must not meet the one before it.
    attempt = _facts(environ, "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    job = f"{attempt} {_facts(environ, 'MASTER_ADDR', 'MASTER_PORT', 'WORLD_SIZE')}"
    if here or _is_loopback(host):
        return OnThisHost(job)
    if environ.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true":
        return OverTorchStore(address, attempt)
    return AtPorts((host,), job, is_allowed(environ, ALLOW_OPEN_JOB))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_slurm(environ: Mapping[str, str], here: bool) -> Meeting:
    nodes = environ.get("SLURM_STEP_NODELIST")
    if not nodes:
        raise ValueError(
            "SLURM_STEP_NODELIST is not set, although SLURM_STEP_NUM_TASKS is: on which host is "
            "rank 0? srun sets it."
        )
    job = _facts(
        environ, "SLURM_CLUSTER_NAME", "SLURM_JOB_UID", "SLURM_JOB_ID", "SLURM_STEP_ID",
        "SLURM_RESTART_COUNT", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST",
    )  # fmt: skip
    if here:
        return OnThisHost(job)
    # A name may not resolve everywhere. srun often runs on the first node as well; if it does not,
    # no process answers there.
    hosts = (nodelist.expand(nodes)[0], environ.get("SLURM_LAUNCH_NODE_IPADDR", ""))
    return AtPorts(tuple(filter(None, hosts)), job, is_allowed(environ, ALLOW_OPEN_JOB))


def _facts(environ: Mapping[str, str], *names: str) -> str:
    return " ".join(f"{name}={environ.get(name, '')}" for name in names)
