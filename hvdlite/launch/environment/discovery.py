"""The order of the launchers, what must not contradict, and how the ranks of each launcher meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hvdlite.launch import nodelist
from hvdlite.launch import secret as job_secret
from hvdlite.launch.environment.identity import (
    AtPorts,
    AtStore,
    Identity,
    InitArguments,
    Numbers,
    OnThisHost,
    OverHttp,
    OverMpi,
    OverTorchStore,
    RendezvousMethod,
)
from hvdlite.launch.environment.sources import (
    HOROVOD,
    HVDLITE,
    PMIX,
    SLURM,
    SOURCES,
    TORCHRUN,
    Source,
)
from hvdlite.rendezvous.addresses import join_address, parse_address, parse_addresses

ALLOW_SINGLETON = "HVDLITE_ALLOW_SINGLETON"

SecretReader = Callable[[Mapping[str, str]], bytes | None]
_ARGUMENTS = "the arguments of init()"


def discover(
    environ: Mapping[str, str],
    asked: InitArguments | None = None,
    read_secret: SecretReader = job_secret.from_environment,
) -> Identity:
    """Returns the identity of a process with this environment and these arguments of init().

    Raises ValueError if the arguments or a launcher's variables are incomplete or contradict
    themselves, and RuntimeError if launchers contradict one another.
    """
    asked = asked or InitArguments()
    may_be_alone = allows_singleton(environ)
    # A rank that wants to be alone takes all variables but our own for another launcher's.
    believed = [
        source
        for source in SOURCES
        if source.is_here(environ) and (source is HVDLITE or not may_be_alone)
    ]
    numbers = _asked_for(asked)
    launcher = _ARGUMENTS
    source: Source | None = None
    if numbers is None and believed:
        source = believed.pop(0)
        numbers, launcher = source.read(environ), source.named(environ)
    if numbers is None:
        refuse_without_numbers(environ, asked)
        return Identity()
    for other in believed:
        _refuse_to_contradict(environ, numbers, source, other)
    if numbers.size == 1 and not is_rendezvous_given(environ, asked):
        return Identity(*numbers, launcher=launcher)
    by_mpi = source is not None and source.has_mpi(environ)
    method = choose_rendezvous(environ, asked, source, numbers)
    secret = secret_of(environ, asked, method, read_secret)
    return Identity(
        *numbers, launcher=launcher, by_mpi=by_mpi, rendezvous_method=method, secret=secret
    )


def allows_singleton(environ: Mapping[str, str]) -> bool:
    """Whether the user says that this process is alone, whatever it has inherited."""
    return is_allowed(environ, ALLOW_SINGLETON)


def _asked_for(asked: InitArguments) -> Numbers | None:
    if asked.rank is None and asked.size is None:
        return None
    if asked.rank is None or asked.size is None:
        raise ValueError(
            f"init(rank={asked.rank}, size={asked.size}) is not allowed: give both, or neither."
        )
    for name, value in (("rank", asked.rank), ("size", asked.size)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"init({name}={value!r}) is not allowed: expected a whole number.")
    if not 0 <= asked.rank < asked.size:
        raise ValueError(
            f"init(rank={asked.rank}, size={asked.size}) is not allowed: rank has to be from 0 to "
            "size - 1."
        )
    return Numbers(asked.rank, asked.size)


def _refuse_to_contradict(
    environ: Mapping[str, str], numbers: Numbers, source: Source | None, other: Source
) -> None:
    """Raises RuntimeError if `other` counts several processes and the chosen source says that this
    process is alone, or if both are of one family and disagree. Otherwise a lower source may
    describe other processes: under srun, Slurm counts torchrun's agents."""
    try:
        size = other.read(environ).size
    except ValueError:  # half of the variables were inherited from somewhere, so they prove nothing
        return
    ours = f"init(size={numbers.size})" if source is None else f"{source.global_[1]}={numbers.size}"
    theirs = (
        f"{other.named(environ)} has started {size} processes ({other.global_[1] or 'PMIx'}={size})"
    )
    if numbers.size == 1 and size > 1:
        raise RuntimeError(
            f"{theirs}, but {ours} comes first and says that this process is alone, so each of "
            "them would train alone. Unset the variables that are left from elsewhere. If this "
            f"process is meant to be alone, set {ALLOW_SINGLETON}=1."
        )
    same = source is not None and source.family and source.family == other.family
    if same and size != numbers.size and size > 1:
        raise RuntimeError(
            f"{theirs}, but {ours} is set. One of the two launchers was started inside the other, "
            "or its variables are left from elsewhere. Unset the variables of the launcher that "
            "did not start this process."
        )


def asks_about_mpi(
    me: Identity, cpu_operations: str, pretends: bool, world: tuple[int, int] | None
) -> bool:
    """Whether this rank loads MPI, and initialises it if the program has not.

    `pretends`: ranks of one host act as ranks of several hosts. `world`: rank and size by the
    program's own MPI, if the program has initialised it. Unless the user asks for MPI, it is
    initialised only under an MPI's launcher: elsewhere Open MPI may end the process, or believe
    that it is alone. It is also initialised only if it might be used: ranks of one host share
    memory, and start sooner without it.
    """
    if me.size == 1 or cpu_operations not in ("auto", "mpi"):
        return False
    if cpu_operations == "mpi":
        return True
    if me.on_one_host and not pretends:
        return False
    return me.by_mpi or world == (me.rank, me.size)


def meets_over_mpi(me: Identity, cpu_operations: str) -> bool:
    """Whether MPI is part of this job although its tensors may not need it: mpirun has started it,
    the ranks have met through its MPI, and the user has not chosen otherwise. All ranks of a job
    agree."""
    return (
        me.size > 1
        and isinstance(me.rendezvous_method, OverMpi)
        and cpu_operations in ("auto", "mpi")
    )


ALLOW_OPEN_JOB = "HVDLITE_ALLOW_OPEN_JOB"
_RENDEZVOUS = "HVDLITE_RENDEZVOUS"
_HTTP = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")


def refuse_without_numbers(environ: Mapping[str, str], asked: InitArguments) -> None:
    """Raises an error if there is a place to meet and no number for this rank: a launcher between
    ours and the rank has lost the numbers."""
    if is_rendezvous_given(environ, asked):
        given = _RENDEZVOUS if environ.get(_RENDEZVOUS) else "init(rendezvous=...)"
        raise ValueError(
            f"{given} is set, but neither {' and '.join(HVDLITE.global_)} nor another launcher's "
            "variables are: which rank is this process, and of how many? Start it with hvdliterun, "
            "or call init(rank=..., size=...)."
        )


def is_allowed(environ: Mapping[str, str], name: str) -> bool:
    """Whether the user has set this variable to yes."""
    return environ.get(name, "").strip().lower() not in ("", "0", "false", "no", "off")


def is_rendezvous_given(environ: Mapping[str, str], asked: InitArguments) -> bool:
    """Whether a place to meet is named."""
    return bool(environ.get(_RENDEZVOUS)) or asked.rendezvous is not None


def choose_rendezvous(
    environ: Mapping[str, str], asked: InitArguments, source: Source | None, numbers: Numbers
) -> RendezvousMethod:
    """Returns how several ranks meet. `source` has numbered them; if it is None, the arguments of
    init() have."""
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
    asked: InitArguments,
    method: RendezvousMethod,
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
    if secret is None and isinstance(method, AtStore):
        if method.may_open:
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


def _with_horovodrun(environ: Mapping[str, str], here: bool) -> RendezvousMethod:
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


def _with_torchrun(environ: Mapping[str, str], here: bool) -> RendezvousMethod:
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
    import ipaddress  # torchrun's ranks alone need it

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_slurm(environ: Mapping[str, str], here: bool) -> RendezvousMethod:
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
