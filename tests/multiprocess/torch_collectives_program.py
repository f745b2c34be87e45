"""A rank that compares each collective of the backend hvdlite with gloo's, in one process.

Run by test_torch_backend_programs.py; the environment has torchrun's variables.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _coalescing_manager

if "hvdlite" not in dist.Backend.backend_list:  # torch before 2.5 looks for no backends
    import hvdlite.torch.distributed  # noqa: F401

dist.init_process_group("hvdlite")
# FutureWarnings of 2.13's renamed collectives would hide others.
gather_single = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
scatter_single = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
RANK, SIZE = dist.get_rank(), dist.get_world_size()
OURS = dist.group.WORLD
GLOO = dist.new_group(backend="gloo")
AGAIN = dist.new_group()  # another group of the same ranks
# From torch 2.14 on hvdlite may be the backend of one device.
MIXES = torch.torch_version.TorchVersion(torch.__version__) >= "2.14"
MIXED = dist.new_group(backend="cpu:hvdlite,cuda:gloo") if MIXES else AGAIN
LAST = SIZE - 1


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers of this rank that are exact in every type."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 7 + 1 + RANK).to(dtype).reshape(shape)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, not contiguous."""
    room = torch.zeros(*tensor.shape[:-1], 2 * tensor.shape[-1], dtype=tensor.dtype)
    view = room[..., ::2]
    return view.copy_(tensor)


FORMS: dict[str, Callable[..., torch.Tensor]] = {
    "contiguous": rows,
    "strided": lambda *shape: strided(rows(*shape)),
    "bfloat16": lambda *shape: rows(*shape, dtype=torch.bfloat16),
    "int64": lambda *shape: rows(*shape, dtype=torch.int64),
}
Make = Callable[..., torch.Tensor]


def over(op: Any) -> Callable[[Make, Any, bool], list[torch.Tensor]]:
    def run(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
        tensor = make(3, 4)
        finish(dist.all_reduce(tensor, op, group, async_op=later))
        return [tensor]

    return run


def finish(work: Any) -> None:
    if work is not None:
        work.wait()


def reduce(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    tensor = make(5)
    finish(dist.reduce(tensor, LAST, dist.ReduceOp.SUM, group, async_op=later))
    return [tensor] if RANK == LAST else []


def broadcast(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    tensor = make(2, 3)
    finish(dist.broadcast(tensor, LAST, group, async_op=later))
    return [tensor]


def all_gather(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    outputs = [torch.zeros_like(make(2, 3)) for _ in range(SIZE)]
    finish(dist.all_gather(outputs, make(2, 3), group, async_op=later))
    return outputs


def all_gather_single(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    source = make(2, 4).contiguous()  # gloo takes no other
    output = torch.zeros(2 * SIZE, 4, dtype=source.dtype)
    finish(gather_single(output, source, group, async_op=later))
    return [output]


def part_of_the_sum(source: torch.Tensor, group: Any) -> torch.Tensor:
    """What reduce_scatter gives this rank; gloo has had it only since torch 2.6."""
    dist.all_reduce(source, group=group)
    return source.chunk(SIZE)[RANK]


def reduce_scatter(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    if group is GLOO:
        return [part_of_the_sum(torch.cat([make(3) for _ in range(SIZE)]), group)]
    output = torch.zeros_like(make(3))
    finish(dist.reduce_scatter(output, [make(3) for _ in range(SIZE)], group=group,
                               async_op=later))  # fmt: skip
    return [output]


def reduce_scatter_single(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    source = make(2 * SIZE, 3).contiguous()
    if group is GLOO:
        return [part_of_the_sum(source, group)]
    output = torch.zeros(2, 3, dtype=source.dtype)
    finish(scatter_single(output, source, group=group, async_op=later))
    return [output]


def all_to_all_single(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    source = make(2 * SIZE, 3).contiguous()
    output = torch.zeros_like(source)
    finish(dist.all_to_all_single(output, source, group=group, async_op=later))
    return [output]


def uneven_all_to_all(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    """Rank r sends r + 1 + i rows to rank i."""
    sent = [RANK + 1 + i for i in range(SIZE)]
    received = [i + 1 + RANK for i in range(SIZE)]
    source = make(sum(sent), 2).contiguous()
    output = torch.zeros(sum(received), 2, dtype=source.dtype)
    finish(dist.all_to_all_single(output, source, received, sent, group, async_op=later))
    return [output]


def gather_of(*shape: int) -> Callable[[Make, Any, bool], list[torch.Tensor]]:
    def run(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
        outputs = [torch.zeros_like(make(*shape)) for _ in range(SIZE)] if RANK == LAST else None
        finish(dist.gather(make(*shape), outputs, LAST, group, async_op=later))
        return outputs or []

    return run


def scatter(make: Make, group: Any, later: bool) -> list[torch.Tensor]:
    output = torch.zeros_like(make(4))
    inputs = [make(4) + i for i in range(SIZE)] if RANK == LAST else None
    finish(dist.scatter(output, inputs, LAST, group, async_op=later))
    return [output]


COLLECTIVES = {
    "sum": over(dist.ReduceOp.SUM),
    "max": over(dist.ReduceOp.MAX),
    "min": over(dist.ReduceOp.MIN),
    "product": over(dist.ReduceOp.PRODUCT),
    "reduce": reduce,
    "broadcast": broadcast,
    "all_gather": all_gather,
    "all_gather_single": all_gather_single,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_single": reduce_scatter_single,
    "all_to_all_single": all_to_all_single,
    "uneven_all_to_all": uneven_all_to_all,
    "gather": gather_of(4),
    "gather of more than goes to all": gather_of(1030, 4),
    "scatter": scatter,
}


def equals_gloo() -> None:
    for name, run in COLLECTIVES.items():
        for form, make in FORMS.items():
            # gloo reduces what lies between the elements of a strided tensor.
            expected = run(lambda *shape, m=make: m(*shape).contiguous(), GLOO, False)
            for group in (OURS, AGAIN, MIXED):
                for later in (False, True):
                    found = run(make, group, later)
                    assert len(found) == len(expected), (name, form)
                    for ours, theirs in zip(found, expected, strict=True):
                        assert torch.equal(ours, theirs), (name, form, later, ours, theirs)


def bits() -> None:
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        for dtype in (torch.int64, torch.uint8, torch.bool):
            given = (torch.arange(6).reshape(2, 3) * (RANK + 1)).to(dtype)
            expected = given.clone()
            dist.all_reduce(expected, op, group=GLOO)
            for later in (False, True):
                found = given.clone().t().contiguous().t()  # strided
                finish(dist.all_reduce(found, op, async_op=later))
                assert torch.equal(found, expected), (op, dtype, found, expected)
                found = given.clone()
                finish(dist.reduce(found, LAST, op, async_op=later))
                assert torch.equal(found, expected if RANK == LAST else given), (op, dtype, found)


def more_than_gloo() -> None:
    mean = rows(3)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert torch.equal(mean, (torch.arange(3) + 1.0) + (SIZE - 1) / 2), mean
    outputs = [torch.zeros(1 + i, 2) for i in range(SIZE)]
    inputs = [torch.full((1 + RANK, 2), float(10 * RANK + i)) for i in range(SIZE)]
    outputs = [torch.zeros(1 + i, 2) for i in range(SIZE)]
    dist.all_to_all(outputs, inputs)
    for i, output in enumerate(outputs):
        assert torch.equal(output, torch.full((1 + i, 2), float(10 * i + RANK))), output
    # Ranks may gather tensors of different lengths, and reduce into parts of different lengths.
    outputs = [torch.zeros(1 + i) for i in range(SIZE)]
    dist.all_gather(outputs, torch.full((1 + RANK,), float(RANK)))
    assert [each.sum().item() for each in outputs] == [(1 + i) * i for i in range(SIZE)]
    output = torch.zeros(1 + RANK)
    dist.reduce_scatter(output, [torch.ones(1 + i) for i in range(SIZE)])
    assert torch.equal(output, torch.full((1 + RANK,), float(SIZE)))


def results_in_the_callers_memory() -> None:
    from hvdlite.torch.distributed.tensors import room_in

    whole, part = torch.zeros(4), torch.ones(2)
    assert room_in([whole], part, 4).data_ptr() == whole.data_ptr()  # without a copy
    assert room_in([whole], whole[:2], 4) is None and room_in([whole], part, 6) is None
    # Of several outputs that lie in a row, as those of torch's object collectives.
    first, second = whole.chunk(2)
    row = room_in([first, second], part, 4)
    assert row.shape == (4,) and row.data_ptr() == whole.data_ptr()
    columns, too_few = list(torch.zeros(2, 2).T), list(whole[:3].split(2))
    for apart in ([second, first], [first, first], [first, torch.zeros(2)], columns, too_few):
        assert room_in(apart, part, 4) is None, apart
    for each in (torch.zeros(SIZE, 3), torch.zeros(SIZE, 2_000)):
        dist.all_gather(list(each), torch.full(each.shape[1:], float(RANK)))
        assert each[:, -1].tolist() == list(range(SIZE))
        wanted = list(torch.zeros_like(each)) if RANK == SIZE - 1 else None
        dist.gather(torch.full(each.shape[1:], 1.0 + RANK), wanted, SIZE - 1)
        for rank, got in enumerate(wanted or []):
            assert set(got.tolist()) == {1.0 + rank}
    # As FSDP does, from a view of the output.
    output = torch.zeros(2 * SIZE)
    mine = output[2 * RANK : 2 * RANK + 2].fill_(RANK)
    gather_single(output, mine)
    assert output.tolist() == [i for i in range(SIZE) for _ in range(2)]
    source = torch.arange(2.0 * SIZE)
    scatter_single(source[:2], source)
    assert source[:2].tolist() == [2.0 * RANK * SIZE, (2.0 * RANK + 1) * SIZE], source


def other_types() -> None:
    both = torch.full((3,), 1 + 1j) * (RANK + 1)
    dist.all_reduce(both)
    assert both[0] == (1 + 1j) * SIZE * (SIZE + 1) / 2, both
    sent = torch.full((3,), complex(0, RANK))
    dist.broadcast(sent, LAST)
    assert sent[2] == complex(0, LAST), sent
    small = torch.full((4,), float(RANK)).to(torch.float8_e5m2)
    parts = [torch.zeros(4).to(torch.float8_e5m2) for _ in range(SIZE)]
    dist.all_gather(parts, small)
    assert [part[3].float().item() for part in parts] == [float(i) for i in range(SIZE)]
    flags = torch.tensor([True, RANK == LAST, False])
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    assert flags.tolist() == [True, True, False]
    needs = torch.ones(2, requires_grad=True)
    dist.all_reduce(needs)
    assert needs.tolist() == [SIZE, SIZE] and needs.requires_grad


def autograd_uses_what_it_has_saved() -> None:
    """As with gloo: a collective does not count as a change of the tensor."""
    weight = torch.ones(2, requires_grad=True)
    tensor = torch.ones(2)
    loss = (weight * tensor).sum()
    dist.all_reduce(tensor)
    loss.backward()
    assert weight.grad is not None and weight.grad.tolist() == [SIZE, SIZE]


def coalesced() -> None:
    with _coalescing_manager():
        a, b = rows(3), rows(2)
        dist.all_reduce(a)
        dist.all_reduce(b)
    assert torch.equal(b, torch.arange(2) * SIZE + SIZE * (SIZE + 1) / 2), b
    with _coalescing_manager(async_ops=True) as manager:
        a, b = torch.zeros(3 * SIZE), torch.zeros(SIZE)
        gather_single(a, rows(3))
        gather_single(b, rows(1))
    manager.wait()
    assert b.tolist() == [1 + i for i in range(SIZE)] and a[-1] == 3 + LAST
    with _coalescing_manager(async_ops=True) as manager:
        a, b = torch.zeros(2), torch.zeros(1)
        scatter_single(a, torch.ones(2 * SIZE))
        scatter_single(b, torch.ones(SIZE) * 2)
    manager.wait()
    assert a.tolist() == [SIZE] * 2 and b.tolist() == [2 * SIZE]


def gathers_of_several_tensors() -> None:
    """Torch's layout is output[rank][tensor]. Lengths may differ, and be 0."""
    for group in (GLOO, OURS):
        for lengths in ((1,) * SIZE, (2, 3, 0), (4,)):
            for later in (False, True):
                mine = [torch.full((n,), 10.0 * RANK + i) for i, n in enumerate(lengths)]
                output = [[torch.zeros(n) for n in lengths] for _ in range(SIZE)]
                finish(dist.all_gather_coalesced(output, mine, group, async_op=later))
                for rank, each in enumerate(output):
                    for i, found in enumerate(each):
                        assert found.tolist() == [10.0 * rank + i] * lengths[i], (rank, i, output)
    mixed = [torch.tensor([1j * RANK]), torch.tensor([[2j, 3]])]
    output = [[torch.zeros_like(each) for each in mixed] for _ in range(SIZE)]
    dist.all_gather_coalesced(output, mixed)
    assert output[LAST][0].item() == 1j * LAST and output[0][1].tolist() == [[2j, 3]]


def tensors_that_share_memory() -> None:
    """Each is reduced once, as if the tensors were copies."""
    for group in (GLOO, OURS):
        whole = rows(8)
        same, part, behind = whole, whole[2:6], whole[5:]
        tensors = [part, same, torch.ones(2), same, behind, whole[:0]]
        dist.all_reduce_coalesced(tensors, group=group)
        total = torch.arange(8) % 7 * SIZE + SIZE * (SIZE + 1) // 2
        assert torch.equal(whole, total), (group, whole, total)
        assert tensors[2].tolist() == [SIZE, SIZE]


def coo(*places: tuple[int, ...], shape: tuple[int, ...], dense: int = 0) -> torch.Tensor:
    """A sparse tensor of this rank's numbers at these places."""
    width = len(shape) - dense
    indices = torch.tensor(places, dtype=torch.int64).reshape(-1, width).t()
    values = rows(len(places), *shape[width:]) if places else torch.zeros(0, *shape[width:])
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=True)


SPARSE: dict[str, Callable[[], torch.Tensor]] = {
    "as many entries as ranks before": lambda: coo(*((i,) for i in range(RANK + 1)), shape=(SIZE,)),
    "repeated places": lambda: coo((1,), (0,), (1,), (RANK,), shape=(SIZE,)),
    "coalesced": lambda: coo((1,), (1,), (0,), shape=(4,)).coalesce(),
    "two sparse, two dense": lambda: coo((0, RANK), (1, 0), shape=(2, SIZE, 3, 2), dense=2),
    "three sparse": lambda: coo((0, RANK, 1), shape=(2, SIZE, 3)),
    "entries on one rank": lambda: coo(*([(1,)] if RANK == LAST else []), shape=(3, 2), dense=1),
    "no entries": lambda: coo(shape=(3, 2), dense=1),
}


def sparse_tensors() -> None:
    for name, make in SPARSE.items():
        expected = make()
        dist.all_reduce(expected, group=GLOO)
        for later in (False, True):
            found = make()
            finish(dist.all_reduce(found, async_op=later))
            assert found.layout is torch.sparse_coo and found.is_coalesced(), name
            assert found.sparse_dim() == expected.sparse_dim(), name
            assert torch.equal(found.indices(), expected.coalesce().indices()), (name, found)
            assert torch.equal(found.to_dense(), expected.to_dense()), (name, found, expected)
    mean = coo((0,), shape=(2,))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert mean.to_dense().tolist() == [1 + (SIZE - 1) / 2, 0]
    try:
        dist.all_reduce(coo((0,), shape=(2,)), dist.ReduceOp.MAX)
    except NotImplementedError as error:
        assert "sparse" in str(error)
    else:
        raise AssertionError("it is not possible with gloo, either")


def objects() -> None:
    gathered: list[Any] = [None] * SIZE
    dist.all_gather_object(gathered, {"rank": RANK})
    assert gathered == [{"rank": i} for i in range(SIZE)]
    told = [{"of": RANK}]
    dist.broadcast_object_list(told, LAST)
    assert told == [{"of": LAST}]
    got: list[Any] = [None]
    dist.scatter_object_list(got, list(range(SIZE)) if RANK == 0 else None, src=0)
    assert got == [RANK]
    gathered = [None] * SIZE
    dist.gather_object(str(RANK), gathered if RANK == 0 else None, dst=0)
    assert RANK != 0 or gathered == [str(i) for i in range(SIZE)]
    dist.barrier()
    dist.barrier(async_op=True).wait()


def messages() -> None:
    to, source = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got = strided(torch.zeros(2, 3))
    pending = [dist.P2POp(dist.isend, rows(2, 3), to), dist.P2POp(dist.irecv, got, source)]
    for work in dist.batch_isend_irecv(pending):
        work.wait()
    assert torch.equal(got, rows(2, 3) - RANK + source), got
    if RANK == 0:
        from_any = [torch.zeros(1) for _ in range(SIZE - 1)]
        assert sorted(dist.recv(each) for each in from_any) == list(range(1, SIZE))
        assert sorted(each.item() for each in from_any) == list(range(1, SIZE))
    else:
        dist.send(torch.tensor([float(RANK)]), 0)


def functionals() -> None:
    total = functional.all_reduce(torch.ones(3), "sum", OURS)
    assert (total + 0).tolist() == [SIZE] * 3
    parts = functional.all_gather_tensor(torch.ones(2) * RANK, 0, OURS)
    assert (parts + 0).tolist() == [i for i in range(SIZE) for _ in range(2)]
    mine = functional.reduce_scatter_tensor(torch.ones(2 * SIZE), "avg", 0, OURS)
    assert (mine + 0).tolist() == [1, 1]
    exchanged = functional.all_to_all_single(torch.ones(SIZE) * RANK, None, None, OURS)
    assert (exchanged + 0).tolist() == list(range(SIZE))
    sent = functional.broadcast(torch.ones(2) * RANK, LAST, OURS)
    assert (sent + 0).tolist() == [LAST, LAST]
    totals = functional.all_reduce_coalesced([torch.ones(3), torch.ones(2)], "sum", OURS)
    assert [each.sum().item() for each in totals] == [3 * SIZE, 2 * SIZE]


def functionals_as_with_a_torch_that_forgets_works() -> None:
    from hvdlite.torch.distributed import older

    ended, found = [], older.FORGETS_WORKS
    end = older.ended
    older.ended = lambda work: ended.append(work) or end(work)
    older.FORGETS_WORKS = True
    functionals()
    assert len(ended) == 6 and all(work.is_completed() for work in ended), ended
    dist.all_reduce(rows(3), async_op=True).wait()
    assert len(ended) == 6  # torch's Python has kept this one
    older.ended, older.FORGETS_WORKS = end, found


def groups_of_some_ranks() -> None:
    """Each rank calls new_group() for each group, and only the members take part."""
    alone = [dist.new_group([rank]) for rank in range(SIZE)]
    tensor = rows(2)
    dist.all_reduce(tensor, group=alone[RANK])
    assert torch.equal(tensor, rows(2))
    halves = [list(range(SIZE // 2)), list(range(SIZE // 2, SIZE))]
    columns = [list(range(i, SIZE, SIZE // 2)) for i in range(SIZE // 2)]
    for ranks in (*halves, *columns, halves[0]):
        group = dist.new_group(ranks)
        if RANK not in ranks:
            continue
        place, size = ranks.index(RANK), len(ranks)
        assert dist.get_rank(group) == place and dist.get_world_size(group) == size
        total = torch.tensor([float(RANK)])
        dist.all_reduce(total, group=group)
        assert total.item() == sum(ranks)
        sent = torch.tensor([float(RANK)])
        dist.broadcast(sent, ranks[-1], group=group)
        assert sent.item() == ranks[-1]
        gathered: list[Any] = [None] * size
        dist.all_gather_object(gathered, RANK, group=group)
        assert gathered == ranks
        got = torch.zeros(1)
        dist.scatter(got, [torch.full((1,), float(i)) for i in range(size)] if place == 0 else None,
                     src=ranks[0], group=group)  # fmt: skip
        assert got.item() == place
        dist.barrier(group=group)
        dist.destroy_process_group(group)
    mesh = init_device_mesh("cpu", (2, SIZE // 2), mesh_dim_names=("replicate", "shard"))
    for name in ("replicate", "shard"):
        total = torch.ones(1)
        dist.all_reduce(total, group=mesh.get_group(name))
        assert total.item() == mesh[name].size()
    # The other ranks do not even call it. The last one: torch 2.14 counts it on these ranks alone,
    # and names later groups by the count.
    if RANK in halves[0]:
        group = dist.new_group(halves[0], use_local_synchronization=True)
        dist.barrier(group=group)


def futures() -> None:
    tensor = rows(3)
    work = dist.all_reduce(tensor, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert torch.equal(doubled.wait(), 2 * tensor) and work.is_completed() and work.is_success()
    assert work.exception() is None and work.result()[0] is tensor
    work = dist.barrier(async_op=True)
    while not work.is_completed():
        pass
    assert work.get_future().wait() == []


def refusals() -> None:
    try:
        dist.reduce_scatter(torch.ones(1), [torch.ones(1)] * SIZE, dist.ReduceOp.BAND)
    except NotImplementedError as error:
        assert "does not have the reduction BAND" in str(error) and "gloo" in str(error)
    else:
        raise AssertionError("only all_reduce and reduce have it")
    try:
        dist.all_reduce(torch.ones(2), dist.ReduceOp.BXOR)
    except TypeError as error:
        assert "BXOR takes integers" in str(error)
    else:
        raise AssertionError("no bits of floating point are combined")
    if MIXES:
        return
    for backend in ("cpu:hvdlite,cuda:gloo", "cpu:gloo,cuda:hvdlite"):
        try:
            dist.new_group(backend=backend)
        except ValueError as error:
            assert "torch would use it for all devices; torch 2.14 can" in str(error), error
        else:
            raise AssertionError(backend)


def wrong_calls_are_told() -> None:
    """Each on this rank alone, before any rank waits for another, or after all have what is
    theirs."""

    def half() -> torch.Tensor:
        return torch.zeros(SIZE + 1, dtype=torch.float16)

    quantised = torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)
    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (
            lambda: dist.all_gather_coalesced([[half()]], [half()]),
            ValueError,
            "a list for each of",
        ),
        (lambda: gather_single(half(), torch.ones(2)), TypeError, "an output is of type"),
        (lambda: gather_single(torch.zeros(1), torch.ones(2)), ValueError, "have arrived"),
        (lambda: scatter_single(torch.zeros(2), torch.ones(5)), ValueError, "the group has"),
        (
            lambda: dist.all_to_all_single(torch.zeros(SIZE + 1), torch.ones(SIZE + 1)),
            ValueError,
            "cannot be divided among",
        ),
        (lambda: dist.broadcast(quantised, 0), TypeError, "cannot move"),
        (lambda: dist.all_reduce(torch.zeros(4).to(torch.float8_e5m2)), ValueError, "float8"),
    ]
    for call, kind, text in wrong:
        try:
            call()
        except kind as error:
            assert text in str(error).lower(), error
        else:
            raise AssertionError(text)
    dist.barrier()
    if RANK == 0:
        work = dist.barrier(async_op=True)
        try:
            work.wait(timedelta(milliseconds=30))
        except dist.DistBackendError as error:
            assert "has not ended within" in str(error)
        else:
            raise AssertionError("it cannot have ended")
        dist.send(torch.zeros(1), LAST)
        work.wait()
    else:
        if RANK == LAST:
            dist.recv(torch.zeros(1), 0)
        dist.barrier()


def mismatches_are_told() -> None:
    """Another shape is an error on all ranks, and the group goes on."""
    for calls in (
        lambda: dist.all_reduce(torch.ones(2 + RANK)),
        lambda: dist.all_reduce(torch.ones(2 + RANK), async_op=True).wait(),
    ):
        try:
            calls()
        except RuntimeError as error:
            assert type(error).__name__ == "MismatchError", error
        else:
            raise AssertionError("ranks differ")
    dist.barrier()


def what_torch_asks() -> None:
    assert dist.get_backend() == dist.get_backend(AGAIN) == "hvdlite"
    assert dist.get_backend(GLOO) == "gloo"
    assert OURS.group_name and OURS.name() == "hvdlite" and OURS.size() == SIZE
    cpu = torch.device("cpu")
    assert cpu in OURS._device_types and OURS._get_backend(cpu) is OURS
    assert dist.distributed_c10d._get_pg_default_device(OURS) == cpu
    assert dist.get_process_group_ranks(AGAIN) == list(range(SIZE))
    if hasattr(dist, "get_default_backend_for_device"):  # from torch 2.5 on
        assert dist.get_default_backend_for_device("cpu") == "gloo"


CHECKS = [
    equals_gloo, bits, more_than_gloo, results_in_the_callers_memory, other_types,
    autograd_uses_what_it_has_saved, coalesced, gathers_of_several_tensors,
    tensors_that_share_memory, sparse_tensors, objects, messages, functionals,
    functionals_as_with_a_torch_that_forgets_works, groups_of_some_ranks, futures, refusals,
    wrong_calls_are_told, mismatches_are_told, what_torch_asks,
]  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch deprecates names that older versions need
    torch.set_num_threads(1)
    for check in CHECKS:
        check()
        os.write(1, f"{check.__name__}\n".encode())  # the lines of ranks stay whole
    dist.destroy_process_group()
    sys.exit()
