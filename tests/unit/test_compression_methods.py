"""Compressors with memory, with all ranks in one thread: the exact properties of their methods."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hvdlite.adapter.compression.algebra import likely
from hvdlite.adapter.compression.dgc import DGC
from hvdlite.adapter.compression.methods import Gather, Largest, Method, Sum, rounds_of
from hvdlite.adapter.compression.on_numpy import ALGEBRA
from hvdlite.adapter.compression.powersgd import LowRank, PowerSGD
from hvdlite.adapter.compression.rounds import finish
from hvdlite.adapter.compression.topk import TopK, summed, take

Array = Any
SHAPE = (6, 5)


def numpys() -> Any:
    return ALGEBRA


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def together(ways: Sequence[Any]) -> list[Any]:
    """What the generators of all ranks return."""
    results: list[Any] = [None] * len(ways)
    answers: list[Any] = [None] * len(ways)
    while True:
        asked = []
        for rank, way in enumerate(ways):
            try:
                asked.append(way.send(answers[rank]))
            except StopIteration as end:
                results[rank] = end.value
        if not asked:
            return results
        assert len({type(each) for each in asked}) == 1
        if isinstance(asked[0], Sum):
            total = asked[0].array.astype(np.float32)
            for each in asked[1:]:
                total = total + each.array
            answers = [total.copy() for _ in ways]
        elif isinstance(asked[0], Largest):
            taken = [take(ALGEBRA, each) for each in asked]
            values, positions = (np.stack(each) for each in list(zip(*taken, strict=True))[:2])
            answers = [
                summed(ALGEBRA, each, mine, (values, positions), len(ways))
                for each, mine in zip(asked, taken, strict=True)
            ]
        else:
            assert isinstance(asked[0], Gather)
            stacked = [np.stack(arrays) for arrays in zip(*(e.arrays for e in asked), strict=True)]
            answers = [[each.copy() for each in stacked] for _ in ways]


class World:
    """Ranks that have a method each."""

    def __init__(self, methods: Sequence[Method], shape: Sequence[int] = SHAPE) -> None:
        self.methods = methods
        self.shape = shape

    def step(self, gradients: Sequence[Array], name: str = "w") -> Array:
        """The sum, which is the same on all ranks."""
        ways = []
        for method, gradient in zip(self.methods, gradients, strict=True):
            flat = ALGEBRA.flat(gradient)
            state = method.state_of(name, flat, self.shape, len(self.methods))
            part = method.part(name, self.shape)
            ways.append(rounds_of(part, ALGEBRA, flat, state, len(self.methods)))
        results = together(ways)
        for method, (_, state) in zip(self.methods, results, strict=True):
            method.keep(name, state)
        totals = [finish(ALGEBRA, total, 1.0, gradients[0]) for total, _ in results]
        for total in totals[1:]:
            assert total.tobytes() == totals[0].tobytes()
        return totals[0]

    def kept(self, key: str, name: str = "w") -> Array:
        """The sum of what the ranks remember."""
        memory = [method.state_dict()["memory"][name][key] for method in self.methods]
        return sum(memory).reshape(self.shape)


def gradients_of(step: int, ranks: int, shape: Sequence[int] = SHAPE) -> list[Array]:
    return [drawn(*shape, seed=1000 * step + rank) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "make",
    [
        lambda: TopK(numpys, 0.1),
        lambda: DGC(numpys, 0.1, momentum=0.0),
        lambda: PowerSGD(numpys, 1),
        lambda: PowerSGD(numpys, 2, warm_start=False),
    ],
    ids=["topk", "dgc", "powersgd", "powersgd-cold"],
)
def test_what_is_sent_and_what_is_kept_is_the_sum_of_all_gradients(make: Any, ranks: int) -> None:
    world = World([make() for _ in range(ranks)])
    sent = np.zeros(SHAPE, np.float64)
    given = np.zeros(SHAPE, np.float64)
    for step in range(20):
        gradients = gradients_of(step, ranks)
        given += sum(gradients)
        sent += world.step(gradients)
    np.testing.assert_allclose(sent + world.kept("residual"), given, atol=2e-5)


def test_topk_sends_the_largest_elements() -> None:
    world = World([TopK(numpys, 0.1), TopK(numpys, 0.1)])
    first, second = np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)
    first[0, :4] = 1, -5, 2, 4
    second[3, :4] = 1, 1, 7, 8
    total = world.step([first, second])
    expected = np.zeros(SHAPE, np.float32)
    expected[0, [1, 2, 3]] = -5, 2, 4
    expected[3, [0, 2, 3]] = 1, 7, 8
    expected[3, 0] = total[3, 0]  # one of two equal ones
    expected[3, 1] = total[3, 1]
    np.testing.assert_array_equal(total, expected)
    assert total[3, 0] + total[3, 1] == 1


def momentum_sgd(steps: int, ranks: int, momentum: float, nesterov: bool) -> list[Array]:
    """What a rank with momentum applies, if it sees the sum of all gradients."""
    velocity = np.zeros(SHAPE, np.float64)
    applied = []
    for step in range(steps):
        gradient = sum(each.astype(np.float64) for each in gradients_of(step, ranks))
        if nesterov:
            velocity = momentum * (velocity + gradient)
            applied.append(velocity + gradient)
        else:
            velocity = momentum * velocity + gradient
            applied.append(velocity.copy())
    return applied


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_dgc_at_density_1_without_masking_is_sgd_with_momentum(ranks: int, nesterov: bool) -> None:
    methods = [DGC(numpys, 1.0, 0.9, nesterov, masking=False) for _ in range(ranks)]
    world = World(methods)
    for step, expected in enumerate(momentum_sgd(100, ranks, 0.9, nesterov)):
        np.testing.assert_allclose(world.step(gradients_of(step, ranks)), expected, atol=2e-4)


def test_dgc_at_density_1_with_masking_is_plain_sgd() -> None:
    world = World([DGC(numpys, 1.0, 0.9) for _ in range(2)])
    for step in range(20):
        gradients = gradients_of(step, 2)
        np.testing.assert_allclose(world.step(gradients), sum(gradients), atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_bias_has_momentum_under_dgc_and_stays_dense(nesterov: bool) -> None:
    world = World([DGC(numpys, 0.001, 0.9, nesterov) for _ in range(2)], shape=(30,))
    for step, expected in enumerate(momentum_sgd(20, 2, 0.9, nesterov)):
        flat = [gradient.reshape(-1) for gradient in gradients_of(step, 2)]
        np.testing.assert_allclose(world.step(flat), expected.reshape(-1), atol=2e-5)


def test_dgc_clips_the_gradient_of_each_rank_to_its_share() -> None:
    world = World([DGC(numpys, 1.0, 0.0, clip=2.0) for _ in range(4)])
    large = np.full(SHAPE, 100.0, np.float32)
    total = world.step([large] * 4)
    assert np.linalg.norm(total) == pytest.approx(4 * 2.0 / 4**0.5, rel=1e-5)
    small = np.full(SHAPE, 1e-3, np.float32)
    np.testing.assert_allclose(world.step([small] * 4), 4 * small, rtol=1e-5)


def test_the_density_of_dgc_falls_by_a_factor_of_4_per_epoch_of_warmup() -> None:
    method = DGC(numpys, 0.001, warmup_epochs=4)
    densities = []
    for epoch in range(6):
        method.on_epoch(epoch)
        densities.append(method.density_now())
    assert densities == pytest.approx([0.2512, 0.0631, 0.01585, 0.003981, 0.001, 0.001], rel=1e-3)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_powersgd_of_full_rank_is_the_exact_sum(ranks: int) -> None:
    part = LowRank(SHAPE, 5, warm_start=True)
    states = [part.begin(ALGEBRA, np.zeros(30, np.float32)) for _ in range(ranks)]
    for step in range(3):
        gradients = gradients_of(step, ranks)
        ways = [
            part.rounds(ALGEBRA, gradient.reshape(-1), state, ranks)
            for gradient, state in zip(gradients, states, strict=True)
        ]
        results = together(ways)
        states = [state for _, state in results]
        np.testing.assert_allclose(
            results[0][0].reshape(SHAPE), sum(gradients), rtol=1e-4, atol=1e-5
        )


def test_powersgd_is_dense_before_its_first_step() -> None:
    world = World([PowerSGD(numpys, 1, start_step=2) for _ in range(2)])
    for step in range(4):
        gradients = gradients_of(step, 2)
        exact = np.allclose(world.step(gradients), sum(gradients), atol=1e-5)
        assert exact == (step < 2)
    resumed = PowerSGD(numpys, 1, start_step=2)
    resumed.load_state_dict(world.methods[0].state_dict())
    assert resumed.steps == {"w": 4}


class Compiling(type(ALGEBRA)):  # type: ignore[misc]
    def is_tracing(self) -> bool:
        return True


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: PowerSGD(Compiling, 1, start_step=2), "start_step=2 changes how"),
        (lambda: DGC(Compiling, 0.1, warmup_epochs=4), "warmup_epochs=4 changes how"),
    ],
)
def test_what_changes_from_step_to_step_cannot_be_compiled(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        World([make()]).step(gradients_of(0, 1))


def test_powersgd_is_linear() -> None:
    """Compressing on each rank and adding up is compressing the sum."""
    gradients = gradients_of(0, 3)
    several = World([PowerSGD(numpys, 2) for _ in range(3)]).step(gradients)
    alone = World([PowerSGD(numpys, 2)]).step([sum(gradients)])
    np.testing.assert_allclose(several, alone, atol=1e-5)


@pytest.mark.parametrize(
    "shape, compressed",
    [((64, 64), True), ((64,), False), ((3, 3), False), ((8, 4, 3, 3), True), ((1, 100), False)],
)
def test_powersgd_takes_matrices_that_get_smaller(shape: tuple[int, ...], compressed: bool) -> None:
    assert PowerSGD(numpys, 2).takes("w", shape) == compressed


def test_tensors_whose_names_are_skipped_stay_dense() -> None:
    method = TopK(numpys, 0.01, skip=["*.embedding.*", "head.weight"])
    assert not method.takes("model.embedding.weight", (10, 10))
    assert not method.takes("head.weight", (10, 10))
    assert method.takes("model.head.weight", (10, 10))
    assert not TopK(numpys, 0.01, skip="head*").takes("head.weight", (10, 10))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "make", [lambda: TopK(numpys, 0.1), lambda: DGC(numpys, 0.1), lambda: PowerSGD(numpys, 2)]
)
def test_a_step_with_nan_is_seen_by_all_ranks_and_does_not_enter_the_memory(
    make: Any, bad: float
) -> None:
    world = World([make(), make()])
    world.step(gradients_of(0, 2))
    before = pickle.dumps([method.state_dict()["memory"] for method in world.methods])
    poisoned = gradients_of(1, 2)
    poisoned[1][2, 3] = bad
    assert not np.isfinite(world.step(poisoned)).all()
    assert pickle.dumps([method.state_dict()["memory"] for method in world.methods]) == before
    assert np.isfinite(world.step(gradients_of(2, 2))).all()


def test_the_memory_survives_a_checkpoint_and_a_pickle() -> None:
    world = World([DGC(numpys, 0.1), DGC(numpys, 0.1)])
    world.step(gradients_of(0, 2))
    states = [method.state_dict() for method in world.methods]
    expected = world.step(gradients_of(1, 2))

    loaded = [DGC(numpys, 0.1), DGC(numpys, 0.1)]
    for method, state in zip(loaded, states, strict=True):
        method.load_state_dict(state)
    # a checkpoint that is written before the first step has what was loaded
    assert pickle.dumps([m.state_dict() for m in loaded]) == pickle.dumps(states)
    pickled = pickle.loads(pickle.dumps(loaded))
    for methods in (loaded, pickled):
        np.testing.assert_array_equal(World(methods).step(gradients_of(1, 2)), expected)


def test_another_number_of_ranks_begins_anew_and_says_so() -> None:
    method = TopK(numpys, 0.1)
    World([method]).step(gradients_of(0, 1))
    with pytest.warns(UserWarning, match=r"from 1 to 2: the memory of topk\(density=0.1\)"):
        World([method, TopK(numpys, 0.1)]).step([np.zeros(SHAPE, np.float32)] * 2)
    np.testing.assert_array_equal(method.state_dict()["memory"]["w"]["residual"], 0)


def test_a_tensor_of_another_shape_begins_anew() -> None:
    method = TopK(numpys, 0.1)
    World([method]).step(gradients_of(0, 1))
    total = World([method], (4, 4)).step(gradients_of(1, 1, (4, 4)))
    assert np.count_nonzero(total) == 2


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: TopK(numpys, 0.0), "density=0.0"),
        (lambda: TopK(numpys, 1.5), "density=1.5"),
        (lambda: DGC(numpys, -1), "density=-1"),
        (lambda: DGC(numpys, 0.1, momentum=1.0), "momentum=1.0"),
        (lambda: DGC(numpys, 0.1, clip=0.0), "clip=0.0"),
        (lambda: DGC(numpys, 0.1, warmup_epochs=-1), "warmup_epochs=-1"),
        (lambda: PowerSGD(numpys, 0), "rank=0"),
        (lambda: PowerSGD(numpys, 1, start_step=-1), "start_step=-1"),
    ],
)
def test_what_is_not_possible_is_a_value_error_at_the_call(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("count", [1, 7, 100, 5000])
@pytest.mark.parametrize("kind", ["normal", "few", "equal"])
def test_a_sample_finds_all_of_the_largest(count: int, kind: str) -> None:
    values = np.abs(drawn(200_000, seed=count))
    if kind == "few":
        values *= np.random.default_rng(1).random(values.size) < 0.001
    if kind == "equal":
        values[:] = 1.0
    found = likely(
        values, count, lambda some, rank: np.partition(some, -rank)[-rank], np.flatnonzero
    )
    if found is not None:
        assert np.sort(values[found])[-count:].sum() == np.sort(values)[-count:].sum()
    chosen = ALGEBRA.largest(values, count)
    assert len(set(chosen.tolist())) == count
    assert np.sort(values[chosen]).tolist() == np.sort(values)[-count:].tolist()
