"""The adapters' policies, without a framework: when gradients travel, under which names, what a
difference is called."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

pytest.importorskip("hvdlite._core", reason="the native core is not built here")

from hvdlite.adapter import names  # noqa: E402
from hvdlite.adapter.agreement import divergence  # noqa: E402
from hvdlite.adapter.compression import CompressionAdapter, Compressor  # noqa: E402
from hvdlite.adapter.containers import mapped  # noqa: E402
from hvdlite.adapter.hooks.aggregation import Aggregation  # noqa: E402
from hvdlite.adapter.hooks.reducer import Reduction  # noqa: E402
from hvdlite.adapter.step import (  # noqa: E402
    layers_of,
    options_of,
    positions,  # noqa: E402
)
from hvdlite.base.ops import Average  # noqa: E402
from hvdlite.job import membership  # noqa: E402


def _aggregation(
    count: int, passes: int = 1, groups: tuple[tuple[int, ...], ...] = ()
) -> Aggregation:
    aggregation = Aggregation(passes)
    for _ in range(count):
        aggregation.add()
    for group in groups:
        aggregation.group(group)
    return aggregation


def test_a_gradient_travels_after_its_last_pass() -> None:
    a = _aggregation(2, passes=2)
    assert [a.arrived(0), a.arrived(1), a.arrived(0)] == [(), (), (0,)]
    assert a.rest() == [(1,)]
    with pytest.raises(AssertionError, match="more gradients than backward_passes_per_step"):
        [a.arrived(0) for _ in range(3)]


def test_a_group_travels_with_its_last_member() -> None:
    a = _aggregation(4, groups=((0, 2, 3),))
    assert [a.arrived(3), a.arrived(0), a.arrived(1), a.arrived(2)] == [(), (), (1,), (0, 2, 3)]
    assert a.rest() == []
    assert [a.arrived(3), a.arrived(1)] == [(), (1,)]
    assert a.rest() == [(0, 2, 3)]
    assert a.rest() == [(1,), (0, 2, 3)], "a step in which nothing arrived"


def test_what_is_added_later_takes_part() -> None:
    a = _aggregation(1)
    a.arrived(0)
    assert a.add() == 1 and a.rest() == [(1,)]
    assert a.rest() == [(0,), (1,)]


def test_changing_the_number_of_passes_begins_anew() -> None:
    a = _aggregation(1, passes=3)
    a.arrived(0)
    a.passes = 1
    a.reset()
    assert a.arrived(0) == (0,)


@pytest.mark.parametrize(
    ("groups", "together"),
    [
        (None, []),
        (0, []),
        ([], []),
        (1, [[0, 1, 2, 3, 4, 5, 6, 7]]),
        (2, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (3, [[0, 1, 2], [3, 4, 5], [6, 7]]),  # the first ones get the odd ones
        (5, [[0, 1], [2, 3], [4, 5], [6], [7]]),
        (9, [[0], [1], [2], [3], [4], [5], [6], [7], []]),
        (["hb", "a"], [[7, 1], [0]]),
        (["ax", "x"], [[0], []]),  # of a group that has variables of its own elsewhere, too
    ],
)
def test_gradients_are_grouped_by_a_number_or_by_lists(
    groups: object, together: list[list[int]]
) -> None:
    assert positions(groups, "abcdefgh") == together


def test_optimizers_are_counted_from_each_init_on(monkeypatch: pytest.MonkeyPatch) -> None:
    incarnation = 1
    monkeypatch.setattr(names.elastic.basics, "incarnation", lambda: incarnation)
    monkeypatch.setattr(names, "_count", 7)
    assert [names.scope() for _ in range(3)] == ["", "optimizer.2.", "optimizer.3."]
    incarnation = 2
    assert [names.scope() for _ in range(2)] == ["", "optimizer.2."]


def test_names_in_an_elastic_job_do_not_depend_on_how_often_a_process_has_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member = SimpleNamespace(in_run=False, generation=1)
    monkeypatch.setenv("HVDLITE_ELASTIC", "1")
    monkeypatch.setattr(membership, "_member", member)
    monkeypatch.setattr(names, "_count", 7)
    assert names.scope() == ""
    member.generation = 4  # as a newcomer that has warmed up
    assert names.scope() == "optimizer.2."
    member.in_run = True
    inside = [names.scope() for _ in range(2)]
    member.generation = 5
    assert [names.scope() for _ in range(2)] == inside
    assert inside == ["run.", "run.optimizer.2."]


def test_an_elastic_job_does_not_compare_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVDLITE_PARAMETER_CHECK", "error")
    assert divergence.mode() == "error"
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    assert divergence.mode() == "off"


def test_names_are_complete_or_absent() -> None:
    p, q, r = object(), object(), object()
    assert names.assigned([[p], [q, r]], []) == {
        id(p): "allreduce.noname.0.0", id(q): "allreduce.noname.1.0", id(r): "allreduce.noname.1.1"
    }  # fmt: skip
    assert names.assigned([[p]], [("p", p), ("q", q)])[id(p)] == "p"
    with pytest.raises(ValueError, match=r"group.position: 1\.0, 1\.1"):
        names.assigned([[p], [q, r]], [("p", p)])
    for wrong in ([p], [("a",)], ["ab"]):
        with pytest.raises(ValueError, match="pairs of a name and a parameter"):
            names.check(wrong)
    with pytest.raises(ValueError, match="more than once: same"):
        names.check([("same", p), ("same", q)])


@pytest.mark.parametrize(
    ("everyones", "sentence"),
    [
        ([(["a"], [1]), (["a"], [1])], ""),
        (
            [(["a", "b"], [1, 2]), (["a", "b"], [1, 3])],
            "Parameter 'b' is not the same on rank 4 and on rank 6",
        ),
        (
            [(["a"], [1]), (["a"], [2]), (["a"], [2])],
            "Parameter 'a' is not the same on rank 4 and on ranks 6, 7",
        ),
        ([(["a", "b"], [1, 2]), (["a", "b"], [3, 4])], "Parameter 'a' (and 1 more) is not"),
        (
            [(["a", "b"], [1, 2]), (["a"], [1])],
            "Rank 4 trains 2 parameters, but rank 6 1. On rank 4 'b' is",
        ),
        (
            [(["b"], [1]), (["a", "b"], [1, 2])],
            "Rank 4 trains 1 parameters, but rank 6 2. On rank 6 'a' is",
        ),
        ([(["a"], [1]), (["b"], [1])], "Rank 4 has a parameter 'a' where rank 6 has 'b'."),
    ],
)
def test_a_difference_has_a_sentence(
    everyones: list[tuple[list[str], list[int]]], sentence: str
) -> None:
    ranks = [4, 6, 7][: len(everyones)]
    said = divergence._different_names(everyones, ranks) or divergence._different_contents(
        everyones, ranks
    )
    assert said.startswith(sentence) and bool(said) == bool(sentence)


def test_compressors_of_both_versions_are_understood() -> None:
    class Old:
        @staticmethod
        def compress(tensor: str) -> tuple[str, int]:
            return tensor[:2], len(tensor)

        @staticmethod
        def decompress(tensor: str, ctx: int) -> str:
            return tensor.ljust(ctx, ".")

    class New(Compressor):
        def compress(self, tensor: str, name: str | None = None) -> tuple[str, str | None]:
            return f"{name}:{tensor}", name

    old, new = CompressionAdapter(Old), CompressionAdapter(New())
    assert old.decompress(*old.compress("abcd", "name")) == "ab.."
    assert new.compress("abcd", "name") == ("name:abcd", "name")
    assert not old.is_none and not new.is_none and old.state_dict() == new.state_dict() == {}
    assert CompressionAdapter(Compressor()).is_none


class Pair(NamedTuple):
    left: Any
    right: Any


def test_containers_keep_their_kinds_and_meet_what_was_there() -> None:
    def seen(value: Any, own: Any) -> Any:
        return value, own

    value = {"a": [1, 2], "b": Pair(3, (4,)), 5: {}}
    assert mapped(value, seen) == {
        "a": [(1, None), (2, None)], "b": Pair((3, None), ((4, None),)), 5: {},
    }  # fmt: skip
    own = {"a": [10, 20], "b": Pair(30, (40, 41)), "c": 1}
    assert mapped(value, seen, own) == {
        "a": [(1, 10), (2, 20)], "b": Pair((3, 30), ((4, None),)), 5: {},
    }  # fmt: skip
    assert mapped([1], seen, {"a": 1}) == [(1, None)]


def test_parameters_that_are_added_later_keep_the_names_of_the_others() -> None:
    first, second, third = object(), object(), object()
    shared = Reduction(options_of(Average, 1.0, Compressor), [("w", first)], lambda: None)
    known: dict[Any, str] = {}
    shared.adopt(known, [[first]], [])
    shared.adopt(known, [[first], [second, third]], [])
    assert list(known.values()) == ["w", "allreduce.noname.1.0", "allreduce.noname.1.1"]
    its_own = Reduction(options_of(Average, 1.0, Compressor), [], lambda: None)
    known = {}
    its_own.adopt(known, [[first, second]], [("a", first), ("b", second)])
    assert list(known.values()) == ["a", "b"]


@pytest.mark.parametrize(("given", "count"), [(None, 0), (3, 1), ([], 0), ([1, 2], 2), ((1,), 1)])
def test_local_layers_are_none_one_or_several(given: Any, count: int) -> None:
    assert len(layers_of(given, lambda layer: isinstance(layer, int))) == count
    with pytest.raises(ValueError, match="local_layers must be a keras.layers.Layer .* not str"):
        layers_of([1, "dense"], lambda layer: isinstance(layer, int))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("int8", "hvd.Compression.int8 or hvd.Strategy(compression='int8')"),
        (8, "hvd.Compression.int8()"),
        (None, "compression=None is no compression"),
    ],
)
def test_what_is_no_compression_is_refused_with_one_that_is(given: object, told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        CompressionAdapter(given)
