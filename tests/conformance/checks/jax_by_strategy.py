"""hvd.distributed(strategy=...) of JAX takes the ways that the strategy names."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax

import hvdlite.jax as hvd
from checks import check
from checks.here import Here, raises
from checks.jax_strategies import plain, trained
from checks.jax_training import _mine, _params, _train
from hvdlite.jax.compression.transformation import CompressedState
from hvdlite.jax.strategies import LocalSteps


def same(got: Any, want: Any) -> None:
    for leaf, expected in zip(*map(jax.tree_util.tree_leaves, (got, want)), strict=True):
        np.testing.assert_array_equal(leaf, expected)


@check(min_ranks=2, seconds=30)
def a_compression_is_that_of_the_strategy(here: Here) -> None:
    strategy = hvd.Strategy(compression={"name": "int8", "error_feedback": False})
    mine = hvd.distributed(plain(), strategy=strategy)
    assert isinstance(mine.init(_params()), CompressedState)
    theirs = hvd.distributed(plain(), compression=hvd.Compression.int8(error_feedback=False))
    dense = hvd.distributed(plain())
    got, want, other = (_train(each, _mine(here), True) for each in (mine, theirs, dense))
    same(got, want)
    assert not np.array_equal(got["w1"], other["w1"])


@check(seconds=30)
def local_steps_are_those_of_the_strategy(here: Here) -> None:
    for local, by_hand in (
        ({"every": 2, "start": 1}, hvd.LocalSGD(plain(), every=2, start=1)),
        (
            {"name": "diloco", "every": 4, "outer": {"lr": 0.5}},
            hvd.DiLoCo(plain(), hvd.OuterSGD(0.5), every=4),
        ),
    ):
        mine = hvd.distributed(plain(), strategy=hvd.Strategy(local=local))
        assert isinstance(mine, LocalSteps)
        got, state = trained(here, mine, 6)
        want, expected = trained(here, by_hand, 6)
        same(got, want)
        since = float(state.counts.since)
        assert 0 < since == float(expected.counts.since) < 3  # an average was made


@check()
def what_jax_does_not_have_is_refused(here: Here) -> None:
    def refused(words: str, **parts: Any) -> None:
        with raises(ValueError, words):
            hvd.distributed(optax.sgd(0.1), strategy=hvd.Strategy(**parts))

    refused("hvdlite.jax: an optax transformation cannot become", large_batch="lars")
    refused("hvdlite.jax: an optimizer has no hold on the layers", sufficient_factors="auto")
    refused("optax.MultiSteps", backward_passes_per_step=2)
    refused("compression.warmup_epochs of the strategy is not possible in hvdlite.jax",
            compression={"name": "dgc", "warmup_epochs": 2})  # fmt: skip
    refused("local.overlap of the strategy is not possible in hvdlite.jax: DiLoCo has no overlap",
            local={"name": "diloco", "overlap": 3})  # fmt: skip
    with raises(ValueError, "op=1 is not possible with local"):
        hvd.distributed(plain(), op=hvd.Sum, strategy=hvd.Strategy(local={"every": 2}))
