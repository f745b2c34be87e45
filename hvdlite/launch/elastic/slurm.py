"""Elastic jobs in a Slurm allocation: whether Slurm ends the job when a node fails."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping

# sbatch's and salloc's variables with the effect of --no-kill.
_VARIABLES = ("SBATCH_NO_KILL", "SALLOC_NO_KILL")
_SECONDS = 5.0


def warn(say: Callable[[str], None], environ: Mapping[str, str] = os.environ) -> None:
    """Says once what an elastic job misses here. `say`: for people."""
    if several_nodes(environ) and not survives(environ, _batch_script(environ["SLURM_JOB_ID"])):
        say(
            "Slurm ends the whole job when one of its nodes fails, unless it was submitted with "
            "--no-kill. Neither the batch script nor SBATCH_NO_KILL says so here."
        )


def several_nodes(environ: Mapping[str, str]) -> bool:
    """Whether this is an allocation of several nodes. Pure."""
    nodes = environ.get("SLURM_JOB_NUM_NODES", environ.get("SLURM_NNODES", ""))
    return bool(environ.get("SLURM_JOB_ID")) and nodes.isdecimal() and int(nodes) > 1


def survives(environ: Mapping[str, str], script: str) -> bool:
    """Whether a variable or a line of the batch script says that the job survives a node. Pure."""
    for name in _VARIABLES:
        if environ.get(name, "no").lower() not in ("no", "off"):
            return True
    said = False
    for options in re.findall(r"^#SBATCH\s+(.*)", script, re.M):
        for word in shlex.split(options, comments=True):
            if re.fullmatch(r"-\w*k\w*|--no-kill(=.*)?", word):
                said = not word.lower().endswith(("=no", "=off"))
    return said


def _batch_script(job: str) -> str:
    """Empty where there is none, as with salloc, or where Slurm does not answer."""
    try:
        done = subprocess.run(
            ["scontrol", "write", "batch_script", job, "-"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
