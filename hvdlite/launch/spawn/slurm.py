"""srun's command lines, for a job inside an allocation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hvdlite.launch.spawn.request import Launch, Request

# srun says so of --cpu-bind=none, where that is the case anyway.
NEEDLESS = "lacks support for cpu binding"


def launch(name: str, environ: Mapping[str, str], request: Request) -> Launch:
    """`name`: of the step, by which it is found again. `environ`: srun's."""
    argv = [
        "srun",
        f"--ntasks={request.processes}",
        f"--job-name={name}",
        # Without this, the others continue when a rank has died.
        "--kill-on-bad-exit=1",
        "--label",
        "--input=none",
        # Otherwise sbatch --export=NONE would apply to the step, too.
        "--export=ALL",
    ]
    if request.hosts:
        argv += _placement(request)
    # Since 22.05, srun no longer takes this from sbatch, and ranks would share one core.
    if environ.get("SLURM_CPUS_PER_TASK"):
        argv.append(f"--cpus-per-task={environ['SLURM_CPUS_PER_TASK']}")
    # A shell of `srun --pty` is a step itself: it holds the processors that this step waits for.
    if environ.get("SLURM_STEP_ID", "").isdecimal():
        argv.append("--overlap")
    return Launch([*argv, *request.extra_arguments, *request.command])


def agent(host: str, command: Sequence[str]) -> list[str]:
    """For one agent that starts all ranks of its node. `command` is the agent's."""
    return [
        "srun",
        # The step has the whole node, whatever else runs there.
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        f"--nodelist={host}",
        "--mem=0",
        "--cpu-bind=none",
        "--job-name=hvdlite-agent",
        "--mpi=none",
        "--export=ALL",
        # Frames have no ends of lines.
        "--unbuffered",
        "--quiet",
        *command,
    ]


def _placement(request: Request) -> list[str]:
    counts = {host.slots for host in request.hosts}
    if len(counts) > 1:
        raise ValueError(
            f"srun cannot place {request.host_list}: it starts the same number of ranks on each "
            "host. Leave -H out: Slurm knows the hosts of this job."
        )
    names = ",".join(host.name for host in request.hosts)
    return [
        f"--nodes={len(request.hosts)}",
        f"--nodelist={names}",
        f"--ntasks-per-node={counts.pop()}",
    ]
