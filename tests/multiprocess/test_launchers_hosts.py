"""init() under the launchers of others between hosts, which are namespaces of the network."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import network
import pytest
from launched import Job
from mpis import end_well, finish, start
from others import PYTHON, TWICE, TWO_HOSTS, expect_places, serve_keys, step, stop_server

_NO_NETWORK = network.why_not()


@pytest.fixture(params=[4, 6], ids=["IPv4", "IPv6"])
def hosts(request: pytest.FixtureRequest) -> Iterator[network.Network]:
    if _NO_NETWORK is not None:
        pytest.skip(_NO_NETWORK)
    with network.Network(2, request.param) as two:
        yield two


def on_two_hosts(
    job: Job, hosts: network.Network, variables: dict[str, str]
) -> list[subprocess.Popen[bytes]]:
    script = job.script(TWICE)
    return [
        start(
            job,
            [*hosts.prefix(rank), PYTHON, script],
            **{k: v.format(rank=rank) for k, v in variables.items()},
        )
        for rank in range(2)
    ]


def test_of_the_addresses_that_rank_0_offers_the_one_that_leads_there_is_taken(
    job: Job, hosts: network.Network
) -> None:
    """docker0 has the same address on both hosts."""
    variables = serve_keys(job, hosts.address(-1), hosts.prefix(-1))
    variables |= {"HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1"}
    codes, output = finish(*on_two_hosts(job, hosts, variables))
    stop_server(job)
    assert codes == [0, 0], output
    expect_places(job, TWO_HOSTS)


def test_srun_between_hosts(job: Job, hosts: network.Network) -> None:
    variables = step(2, SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_LOCALID="0", SLURM_NODEID="{rank}")
    variables |= {
        "SLURM_STEP_NODELIST": "nowhere,elsewhere",
        "SLURM_LAUNCH_NODE_IPADDR": hosts.address(0),
    }
    end_well(*on_two_hosts(job, hosts, variables))
    expect_places(job, TWO_HOSTS)


def test_torchs_variables_between_hosts(job: Job, hosts: network.Network) -> None:
    variables = {
        "RANK": "{rank}",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": hosts.address(0),
        "MASTER_PORT": "29500",
    }
    end_well(*on_two_hosts(job, hosts, variables))
    expect_places(job, TWO_HOSTS)


@pytest.mark.skipif(_NO_NETWORK is not None, reason=str(_NO_NETWORK))
@pytest.mark.parametrize("allowed", ["", "1"], ids=["refused", "allowed"])
def test_a_job_at_public_addresses_is_open_only_where_the_user_says_so(
    job: Job, allowed: str
) -> None:
    with network.Network(2, public=True) as hosts:
        variables = {
            "RANK": "{rank}",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": hosts.address(0),
            "MASTER_PORT": "29500",
            "HVDLITE_ALLOW_OPEN_JOB": allowed,
        }
        codes, output = finish(*on_two_hosts(job, hosts, variables))
    if allowed:
        assert codes == [0, 0], output
        expect_places(job, TWO_HOSTS)
        assert "Every program that reaches port" in output
    else:
        assert codes == [1, 1], output
        assert output.count("is a public address") == 2, output
    assert "torchrun" not in output, output


def test_a_rank_0_on_another_than_the_first_host_is_told(job: Job, hosts: network.Network) -> None:
    variables = step(
        2, SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_LOCALID="0", SLURM_NODEID="0", SLURM_PROCID="0"
    )
    variables |= {"SLURM_STEP_NODELIST": f"{hosts.address(1)},{hosts.address(0)}"}
    codes, output = finish(start(job, [*hosts.prefix(0), PYTHON, job.script(TWICE)], **variables))
    assert codes == [1] and "but the other ranks look for it on" in output, output
