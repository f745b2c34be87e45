"""What went wrong before an agent answered, by the words of ssh or srun and of the far shell.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# The first that matches. `{host}` and `{python}` are filled in.
_ADVICE = (
    (
        r"Host key verification failed|REMOTE HOST IDENTIFICATION",
        "its host key is unknown here, or has changed: run `ssh {host}` once by hand",
    ),
    (
        r"Permission denied",
        "it refused the login: `ssh {host} true` has to work without a password "
        "(ssh-copy-id, --ssh-identity-file)",
    ),
    (
        r"Could not resolve hostname|Name or service not known",
        "no such host: check -H or the hostfile",
    ),
    (
        r"Connection refused",
        "no ssh server listens there: is sshd running, is --ssh-port right?",
    ),
    (
        r"timed out|No route to host|Network is unreachable",
        "it does not answer: is it up, is the name right, does a firewall stand between?",
    ),
    (
        r"Requested node configuration is not available|Invalid node name",
        "it is no node of this Slurm allocation: check -H or the discovery script, or reach hosts "
        "by ssh (--gloo)",
    ),
    (
        r"allocation .*has been revoked|Job/step already completing|Invalid job id",
        "the Slurm allocation is over",
    ),
    (r"No module named '?hvdlite", "hvdlite is not installed there for {python}"),
)


def explain(host: str, status: int, words: str, interpreter: str, by: str = "ssh") -> str:
    """Says what went wrong, and what to do. `words`: the output of `by` and of the far side."""
    said = words.strip().splitlines()[-1].strip() if words.strip() else ""
    for pattern, advice in _ADVICE:
        if re.search(pattern, words):
            return f"host {host}: {advice.format(host=host, python=interpreter)} ({said})"
    if status == 127 or re.search(r"not found|No such file", words):
        return (
            f"host {host}: there is no {interpreter}: the same Python must be at the same place "
            f"on every host ({said})"
        )
    how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
    return f"host {host}: {by} {how} before the agent answered" + (f" ({said})" if said else "")


def late(phases: Mapping[str, str], left: Iterable[str], timeout: float) -> list[str]:
    """Says which hosts have not answered in time: by phase, and those that were not called."""
    return [
        *(
            f"host {host}: still {phase} after {timeout:g} s (--start-timeout)"
            for host, phase in phases.items()
        ),
        *(f"host {host}: not reached after {timeout:g} s (--start-timeout)" for host in left),
    ]
