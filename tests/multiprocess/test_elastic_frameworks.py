"""Elastic jobs of JAX, Keras and TensorFlow: a rank is killed in the middle of a step.

The job has as many ranks as before when it goes on, and its data come from the step's number and
the rank. So the weights in the end have to be those of a run without a death, bit for bit.
"""

from __future__ import annotations

import re
import sys

import pytest
from installed import needs_installed
from launched import Job

# What each program begins with. `fails(step)` comes between a step's forward pass and its end.
PRELUDE = """
import hashlib, os, signal
import numpy as np
MEMBER = int(os.environ["HVDLITE_MEMBER"])
STEPS = 12
def data(step, rank):
    random = np.random.default_rng([step, rank])
    x = random.normal(size=(8, 6)).astype("float32")
    return x, (x.sum(1) > 0).astype("int32")
def dies(step):
    if {kills} and MEMBER == 2 and step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
def tell(arrays):
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    print(f"member {{MEMBER}} ends as {{digest.hexdigest()}} in {{hvd.elastic.generation()}}",
          flush=True)
"""

JAX = """
import jax, jax.numpy as jnp, optax
import hvdlite.jax as hvd
hvd.init()
optimizer = hvd.distributed(optax.adam(0.01))
params = {"w": jax.random.normal(jax.random.key(0), (6, 3)), "b": jnp.zeros(3)}
state = hvd.elastic.JaxState(params=params, opt_state=optimizer.init(params), at=0)
def loss_of(params, x, y):
    logits = x @ params["w"] + params["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()
def update(params, opt_state, x, y):
    updates, opt_state = optimizer.update(jax.grad(loss_of)(params, x, y), opt_state, params)
    return optax.apply_updates(params, updates), opt_state
step = jax.jit(update, donate_argnums=DONATED)

@hvd.elastic.run
def train(state):
    while state.at < STEPS:
        x, y = data(state.at, hvd.rank())
        dies(state.at)
        state.params, state.opt_state = step(state.params, state.opt_state, x, y)
        state.at += 1
        state.END_OF_STEP()

train(state)
tell(jax.tree_util.tree_leaves((state.params, state.opt_state)))
"""


def _ends(job: Job, program: str, kills: bool, **environment: str) -> tuple[set[str], set[int]]:
    """The weights with which members have ended, and their numbers."""
    path = job.script(PRELUDE.format(kills=kills) + program)
    done = job.run("-np", "2", "--min-np", "2", sys.executable, path, **environment)
    assert done.returncode == 0, done.stderr.decode()
    found = re.findall(r"member (\d) ends as (\w+) in (\d)", done.stdout.decode())
    assert {generation for *_, generation in found} == {"2" if kills else "1"}
    assert job.pids() == []
    return {digest for _, digest, _ in found}, {int(member) for member, *_ in found}


def _is_undisturbed(job: Job, program: str, **environment: str) -> None:
    alone, members = _ends(job, program, kills=False, **environment)
    assert len(alone) == 1 and members == {1, 2}
    assert _ends(job, program, kills=True, **environment) == (alone, {1, 3})


@pytest.mark.watchdog(150)
@pytest.mark.parametrize("end_of_step", ["step", "commit"])
@pytest.mark.parametrize("donated", ["()", "(0, 1)"], ids=["kept", "donated"])
def test_jax_goes_on_as_if_no_rank_had_died(job: Job, donated: str, end_of_step: str) -> None:
    needs_installed("jax", "optax")
    program = JAX.replace("DONATED", donated).replace("END_OF_STEP", end_of_step)
    _is_undisturbed(job, program)
