"""What is said to ssh, what is made of its answers, and the agent's agent_protocol."""

from __future__ import annotations

import os
import random

import pytest

from hvdlite.launch.spawn import agent_protocol, ssh
from hvdlite.launch.spawn.agent_protocol import AgentOrder
from hvdlite.launch.spawn.events import (
    AllGone,
    Event,
    RankEnded,
    RankStarted,
    RankStartFailed,
    line,
    parse,
)
from hvdlite.launch.spawn.guardian import read_job

PYTHON = "/opt/my env/bin/python"


def test_ssh_never_asks_and_starts_the_same_interpreter() -> None:
    words = ssh.command_line(
        "node1", ssh.SshOptions(), {"PYTHONPATH": "/a b", "SECRET": "x"}, PYTHON
    )
    assert "BatchMode=yes" in words and words[-3:-1] == ["--", "node1"]
    assert words[-1] == (
        "echo hvdlite logged in; exec env 'PYTHONPATH=/a b' '/opt/my env/bin/python' -m "
        "hvdlite.launch.agent"
    )
    # that is the user's to decide
    assert not any("StrictHostKeyChecking" in word for word in words)
    plain = ssh.command_line("n", ssh.SshOptions(), {}, "/usr/bin/python3")
    assert plain[-1] == "echo hvdlite logged in; exec /usr/bin/python3 -m hvdlite.launch.agent"


def test_in_a_slurm_allocation_srun_starts_the_agent() -> None:
    words = ssh.command_line("n2", ssh.SshOptions(in_slurm=True, port=7), {}, PYTHON)
    assert words[0] == "srun" and "--nodelist=n2" in words and "--overlap" in words
    assert words[-3:-1] == ["sh", "-c"] and "-m hvdlite.launch.agent" in words[-1]


def test_ports_keys_and_further_arguments_are_handed_on() -> None:
    options = ssh.SshOptions(port=2222, identity_file="k", extra=["-F", "c"], connect_timeout=7.4)
    words = ssh.command_line("me@[fd00::1]", options, {}, "python3")
    joined = " ".join(words)
    assert "-p 2222 -i k -F c -- me@fd00::1 echo" in joined and "ConnectTimeout=7" in joined


@pytest.mark.parametrize(
    ("status", "words", "text"),
    [
        (255, "Host key verification failed.", "its host key is unknown here"),
        (255, "root@n: Permission denied (publickey).", "`ssh n true` has to work without a pass"),
        (255, "ssh: Could not resolve hostname n: Name or service not known", "no such host"),
        (255, "ssh: connect to host n port 22: Connection refused", "no ssh server listens there"),
        (255, "ssh: connect to host n port 22: Connection timed out", "it does not answer"),
        (255, "ssh: connect to host n port 22: No route to host", "it does not answer"),
        (
            1,
            "/opt/python: No module named hvdlite",
            "not installed there for /opt/my env/bin/python",
        ),
        (1, "ModuleNotFoundError: No module named 'hvdlite'", "hvdlite is not installed there"),
        (
            127,
            "sh: 1: exec: /opt/python: not found",
            "there is no /opt/my env/bin/python: the same",
        ),
        (9, "something else", "ssh ended with status 9 before the agent answered (something else)"),
        (-9, "", "ssh was killed by signal 9 before the agent answered"),
    ],
)
def test_what_ssh_says_becomes_advice(status: int, words: str, text: str) -> None:
    sentence = ssh.explained("n", status, words, PYTHON)
    assert sentence.startswith("host n: ") and text in sentence
    assert words.rsplit("\n", 1)[-1] in sentence


def test_frames_come_out_as_they_went_in_however_the_stream_is_cut() -> None:
    sent = [
        agent_protocol.Frame(agent_protocol.STDOUT, rank, bytes([rank]) * size)
        for rank, size in ((0, 0), (3, 70000), (255, 1))
    ]
    stream = (
        b"Welcome!\nno mail\n"
        + agent_protocol.MARK
        + b"".join(agent_protocol.encode(f.kind, f.payload, f.rank) for f in sent)
    )
    dice = random.Random(1)
    for _ in range(50):
        decoder, got, rest = agent_protocol.Decoder(), [], stream
        while rest:
            cut = dice.choice((1, 2, 9, 30, 5000, 100000))
            got += decoder.feed(rest[:cut])
            rest = rest[cut:]
        assert got == sent
        assert decoder.noise == b"Welcome!\nno mail\n"


def test_an_order_is_understood_by_its_own_version_only() -> None:
    order = AgentOrder(
        "ab" * 32,
        7,
        ["::1"],
        False,
        1.5,
        "/d",
        ["true"],
        {"A": "\udcff"},
        {3: {"B": "b"}},
        "auto",
        5.0,
        "",
        0,
        0.0,
    )
    reader, writer = os.pipe()
    with open(writer, "wb") as file:
        file.write(order.encode() + b"S")
    content = read_job(reader)
    assert content is not None and AgentOrder.decode(content) == order
    assert os.read(reader, 9) == b"S"  # what comes after it is left
    os.close(reader)
    assert "ab" * 32 not in repr(order)
    with pytest.raises(
        ValueError, match=r"different versions of hvdlite: .* disagree about more, port\)"
    ):
        AgentOrder.decode({**{k: v for k, v in content.items() if k != "port"}, "more": 1})


def test_what_is_no_frame_is_an_error() -> None:
    with pytest.raises(ValueError, match="something that is not a frame: b'Traceback"):
        agent_protocol.Decoder().feed(agent_protocol.MARK + b"Traceback (most recent call last)")


def test_without_the_mark_everything_is_noise() -> None:
    decoder = agent_protocol.Decoder()
    assert decoder.feed(b"bash: python: not found\n") == []
    assert not decoder.begun and decoder.noise == b"bash: python: not found\n"


@pytest.mark.parametrize(
    "event",
    [
        RankStarted(1, 2),
        RankStartFailed(3, 2),
        RankEnded(1, code=3),
        RankEnded(1, signal=9),
        AllGone(),
        AllGone(2, True),
    ],
)
def test_events_are_lines_and_back(event: Event) -> None:
    assert parse(line(event)) == event
