"""hvdlite.jax in whole programs: what ends a compiled step that waits for other ranks."""

from __future__ import annotations

import re

import pytest
from bare_ranks import PROMPT
from installed import needs_installed
from launched import Job
from machine import within

needs_installed("jax")

_WAIT_FOR_SLEEP = """
import os, signal, sys, threading, time
def place():  # where the main thread is, and whether it sleeps there
    frame = sys._current_frames()[threading.main_thread().ident]
    with open(f"/proc/self/task/{os.getpid()}/stat") as file:
        return frame.f_code, frame.f_lasti, file.read().rpartition(")")[2].split()[0]
def wait_for_sleep():
    # Until it waits in native code, which it does for ever. On its way there it is busy, or wants
    # to be.
    seen = []
    while len(seen) < 10:
        time.sleep(0.05)  # poll
        now = place()
        seen = [*seen, now] if now[2] == "S" and now == (seen or [now])[-1] else []
"""

_INTERRUPTED = (
    _WAIT_FOR_SLEEP
    + """
import jax, jax.numpy as jnp
import hvdlite, hvdlite.jax as hvd
hvd.init()
step = jax.jit(lambda x: hvd.allreduce(x * 2, op=hvd.Sum))
x = jnp.ones(int(sys.argv[1]))
step(x).block_until_ready()
if hvd.rank() == 0:
    pressed = []
    def press():
        wait_for_sleep()
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    try:
        threading.Thread(target=press).start()
        try:
            step(x).block_until_ready()
        except (jax.errors.JaxRuntimeError, ValueError):
            time.sleep(0.01)  # span: here at the latest Python's handler has its turn
    except KeyboardInterrupt:
        print(f"interrupted after {time.monotonic() - pressed[0]:.2f} s", flush=True)
        open("interrupted", "w").close()
        raise
else:
    while not os.path.exists("interrupted"):
        time.sleep(0.01)  # poll
    try:
        with hvd.translated_errors():
            # JAX may have come back from a wait that goes on: the first of these completes it.
            while True:
                step(x).block_until_ready()
    except hvd.PeerLostError as error:
        print(f"lost {error.rank}: {error}", flush=True)
"""
)

# A program goes on that has a handler of its own, or whose main thread is in Python or in native
# code of somebody else.
_NOT_INTERRUPTED = (
    _WAIT_FOR_SLEEP
    + """
import hashlib
import jax, jax.numpy as jnp
import hvdlite, hvdlite.jax as hvd
hvd.init()
step = jax.jit(lambda x: hvd.allreduce(x * 2, op=hvd.Sum))
step(jnp.ones(4)).block_until_ready()
def asked():
    counters = hvdlite.metrics()
    return counters["requests_in_full"] + counters["requests_by_slot"]
before = asked()
def compute(times):
    began = time.monotonic()
    hashlib.pbkdf2_hmac("sha256", b"", b"", times)
    return time.monotonic() - began
computing = threading.Event()
def press(turn):
    if turn == 0:  # the main thread is in native code, another one waits in a step
        while asked() == before:
            time.sleep(0.001)  # poll
        computing.wait()
    else:
        wait_for_sleep()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)  # span: an interruption that nobody wants comes within 0.1 s
    open(f"pressed.{turn}", "w").close()
if hvd.rank() == 0:
    results = []
    try:
        work = lambda: results.append(step(jnp.ones(4)).block_until_ready())
        threading.Thread(target=work).start()
        threading.Thread(target=press, args=(0,)).start()
        half_a_second = int(0.5 / compute(10_000) * 10_000)
        computing.set()
        compute(half_a_second)
        while True:
            time.sleep(0.05)  # until killed
    except KeyboardInterrupt:
        print("interrupted in Python", flush=True)
    while not results:
        time.sleep(0.05)  # poll
    signal.signal(signal.SIGINT, lambda *_: print("a handler", flush=True))
    threading.Thread(target=press, args=(1,)).start()
    print(step(jnp.ones(4)), flush=True)
else:
    for turn in range(2):
        while not os.path.exists(f"pressed.{turn}"):
            time.sleep(0.01)  # poll
        print(step(jnp.ones(4)), flush=True)
"""
)


@pytest.mark.parametrize("elements", [4, 1 << 20])
def test_ctrl_c_ends_a_compiled_step_that_waits(job: Job, elements: int) -> None:
    done = job.run("-np", "2", "python", job.script(_INTERRUPTED), str(elements))
    said, errors = done.stdout.decode(), done.stderr.decode()
    took = re.search(r"interrupted after ([\d.]+) s", said)
    assert took and float(took[1]) < within(PROMPT), said + errors
    why = r"interrupted \(Ctrl-C\)|KeyboardInterrupt"
    assert re.search(f"lost 0: rank 0 failed: ({why})", said), said + errors


def test_ctrl_c_of_a_program_that_is_not_stuck_is_the_programs(job: Job) -> None:
    done = job.end_well("-np", "2", "python", job.script(_NOT_INTERRUPTED))
    said, errors = done.stdout.decode(), done.stderr.decode()
    assert (
        "interrupted in Python" in said and "a handler" in said and said.count("[4. 4. 4. 4.]") == 3
    ), said + errors
