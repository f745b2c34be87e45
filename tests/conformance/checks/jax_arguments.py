"""hvdlite.jax: what is wrong is noticed, with a sentence that says what to do, at once and
compiled."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import hvdlite.jax as hvd
from checks import check
from checks.here import Here, raises
from checks.jax_api import WAYS, run


@check(way=WAYS)
def wrong_arguments_are_refused(here: Here, way: str) -> None:
    x = jnp.ones(3)
    for error, words, function in (
        (TypeError, "str", lambda x: hvd.allreduce([x, "text"])),
        (ValueError, "complex64", lambda x: hvd.allreduce(x.astype(jnp.complex64))),
        (ValueError, "key_data", lambda x: hvd.allreduce(jax.random.key(0))),
        (ValueError, "Sum", lambda x: hvd.allreduce(x, op=17)),
        (hvd.HorovodInternalError, "reducescatter", lambda x: hvd.reducescatter(x, op=hvd.Max)),
        (
            hvd.HorovodInternalError,
            "reducescatter",
            lambda x: hvd.reducescatter([x, x], op=hvd.Max),
        ),
        (ValueError, "not registered", lambda x: hvd.allreduce(x, process_set=hvd.ProcessSet([0]))),
        (TypeError, "ProcessSet", lambda x: hvd.allreduce(x, process_set=[0])),
    ):
        with raises(error, words):
            run(way, function, x)
    with raises(ValueError, "root_rank 99"), hvd.translated_errors():
        jax.block_until_ready(run(way, lambda x: hvd.broadcast(x, 99), x))
    with raises(ValueError, "scaled"), hvd.translated_errors():
        jax.block_until_ready(run(way, lambda x: hvd.allreduce(x > 0, prescale_factor=2.0), x))


@check(min_ranks=2)
def ranks_that_disagree_are_told_how(here: Here) -> None:
    for way in WAYS:
        x = jnp.ones(3 + (here.rank == 1))
        with raises(hvd.MismatchError, "rank 1", "[3]", "[4]"), hvd.translated_errors():
            jax.block_until_ready(run(way, lambda x: hvd.allreduce(x, "differs"), x))
    # JAX's own class has the message, too, and the job goes on.
    with raises(jax.errors.JaxRuntimeError, "MismatchError", "'again'"):
        jax.jit(lambda x: hvd.allreduce(x, "again"))(jnp.ones(3 + here.rank)).block_until_ready()
    assert (jax.jit(lambda x: hvd.allreduce(x))(jnp.ones(3)) == 1).all()


@check()
def what_runs_while_tracing_is_refused(here: Here) -> None:
    for function, word in ((hvd.barrier, "barrier"), (hvd.join, "join")):
        with raises(ValueError, word, "outside jax.jit"):
            jax.jit(lambda x: (function(), x)[1])(1.0)  # noqa: B023


@check()
def other_errors_pass_translation_as_they_are(here: Here) -> None:
    own = RuntimeError("mine")
    try:
        with hvd.translated_errors():
            raise own
    except RuntimeError as error:
        assert error is own


@check(min_ranks=2)
def a_process_set_that_took_anothers_number_is_noticed(here: Here) -> None:
    members = [0, here.size - 1]
    first = hvd.add_process_set([0])
    step = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=first))
    if here.rank == 0:
        assert (step(jnp.ones(2)) == 1).all()
    number = first.process_set_id
    hvd.remove_process_set(first)
    second = hvd.add_process_set(members) if here.size > 2 else hvd.add_process_set([1])
    if second.process_set_id == number and here.rank == 0:
        with raises(ValueError, "other members", "clear_caches"), hvd.translated_errors():
            step(jnp.ones(2)).block_until_ready()
    hvd.remove_process_set(second)
