"""An elastic job among processes that write what they should not: row 33 of the design's faults.

Member 2 is the culprit. It has the job's secret, as all members have, but only its own token.
"""

from __future__ import annotations

import sys

import pytest
from elastic_faults import PYTHON, QUICKLY, generations, program
from launched import Job

PROGRAM = """
import dataclasses, os
import numpy as np
import hvdlite as hvd
from hvdlite.job import membership
from hvdlite.launch import environment
from hvdlite.rendezvous import StoreClient
from hvdlite.rendezvous.protocol import HandshakeError
from hvdlite.rendezvous.documents import Report, encode_report

def misbehave():
    me = membership.member()
    store = me.connect()
    generation = me.generation + 1
    token = bytes.fromhex(os.environ["HVDLITE_MEMBER_TOKEN"])
    honest = Report(1, generation, position=10**6, whole=True, broken=True)
    def write(key, value):
        store.set("elastic/" + key, value)
    write(f"report/{generation}/1", encode_report(honest, bytes(32)))  # a wrong token
    write(f"report/{generation}/1", encode_report(honest, token))      # another member's
    mine = encode_report(dataclasses.replace(honest, member=2, generation=0), token)
    write(f"report/{generation}/2", mine)                              # of another generation
    write(f"report/{generation}/9", encode_report(dataclasses.replace(honest, member=9), token))
    for key in ("report/x/1", "in/1", "else", "report/1/1/1", "done/7", "\\x1b[2J"):
        write(key, os.urandom(100))
    first = store.get("elastic/report/0/1")  # as member 1 has written it
    write("report/0/1", first)
    write(f"report/{generation}/1", first)
    for _ in range(100):
        write(f"report/{generation}/1", os.urandom(100))
    store.delete(f"elastic/report/{generation}")
    address, secret = environment.discover(os.environ).place
    try:
        StoreClient(address, bytes(32))
    except HandshakeError:
        pass
    else:
        raise SystemExit("a wrong secret has opened the store")
    StoreClient(address, secret).close()

hvd.init()
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, weights=np.zeros(3))

@hvd.elastic.run
def train(state):
    while state.step < 20:
        if state.step == 5 and hvd.elastic.member() == 2:
            misbehave()
        state.weights = state.weights + hvd.allreduce(np.ones(3), name="gradient")
        state.step += 1
        state.commit()
    assert (state.weights == state.step).all(), (state.weights, state.step)
    return hvd.elastic.generation(), hvd.size(), os.getpid()

print("trained:", train(state), flush=True)
"""


def test_what_members_may_not_write_is_refused_with_a_line_and_the_job_is_undisturbed(
    job: Job,
) -> None:
    done = job.end_well("-np", "3", "--min-np", "1", sys.executable, job.script(PROGRAM))
    err = done.stderr.decode()
    trained = [line for line in done.stdout.decode().splitlines() if "trained: (1, 3, " in line]
    assert len(trained) == 3, done.stdout.decode()  # in the first generation, with all ranks
    for key, why in (
        ("report/2/1", "not sealed with its token"),
        ("report/2/2", "it is a report of another generation, 0"),
        ("report/2/9", "there is no member 9"),
        ("report/x/1", "it is no key of a member"),
    ):
        assert any(f"{key} in the job's store is refused" in line and why in line
                   for line in err.splitlines()), err  # fmt: skip
    assert err.count("is refused") < 10
    assert "does not know the job's secret" in err or "secret" in err, err
    assert job.pids() == []


FORGES = """
from hvdlite.job import membership
from hvdlite.rendezvous import documents
from hvdlite.rendezvous.fields import sealed_key
def happens(step):
    if (MEMBER, step) == (2, 3):
        token = bytes.fromhex(os.environ["HVDLITE_MEMBER_TOKEN"])
        store = membership.member().connect()
        store.set("elastic/@KEY", @VALUE)
        store.close()
    if (MEMBER, step) == (3, 5): die()
"""


@pytest.mark.parametrize(
    "value", ["b''", "sealed_key('done/1', token)", "sealed_key('done/2', token)"]
)
def test_no_member_says_that_another_one_is_done(job: Job, value: str) -> None:
    """After the first that is done no newcomer is started."""
    forges = FORGES.replace("@KEY", "done/1").replace("@VALUE", value)
    script = program(job, forges, done="hvd.size() == 3 and hvd.elastic.generation() > 1")
    done = job.end_well("-np", "3", "--min-np", "1", *QUICKLY, PYTHON, script)
    err = done.stderr.decode()
    assert "done/1 in the job's store is refused: it is not sealed with the token of member" in err
    assert [size for _, size in generations(job, 1)][-1] == 3
    assert job.pids() == []


@pytest.mark.parametrize("key", ["leave/1", "leave-host/1"])
def test_no_member_asks_for_another_one_to_leave(job: Job, key: str) -> None:
    forged = f"documents.encode_leave_request(documents.leave_request('forged'), {key!r}, token)"
    script = program(job, FORGES.replace("@KEY", key).replace("@VALUE", forged))
    done = job.end_well("-np", "2", "--min-np", "1", *QUICKLY, PYTHON, script)
    err = done.stderr.decode()
    assert f"{key} in the job's store is refused: it is not sealed with the token of member" in err
    assert generations(job, 1) == generations(job, 2) == [(1, 2)]
    assert job.pids() == []
