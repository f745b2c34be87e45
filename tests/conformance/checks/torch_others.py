"""hvdlite.torch: allgather, broadcast, alltoall, reducescatter and sparse tensors, in all their forms."""

from __future__ import annotations

import itertools

import numpy as np
import torch

import hvdlite.torch as hvd
from checks import check
from checks.among import process_sets
from checks.here import FLOATS, INTEGERS, SUM, Here, raises, reference
from checks.torch_here import TORCH_DTYPES, array, tensor

TAILS = ((), (3,), (2, 0), (1, 5))


@check(dtype=TORCH_DTYPES, seconds=30)
def allgather_concatenates_what_differs_in_its_first_dimension(here: Here, dtype: str) -> None:
    with process_sets(here) as sets:
        for among in sets:
            how = {"process_set": among.process_set}
            pieces = [[here.data(dtype, ((r * 3) % 4, *tail), r) for r in among.members] for tail in TAILS]
            mine = [tensor(each[among.mine]) for each in pieces]
            want = [np.concatenate(each) for each in pieces]
            handles = [hvd.allgather_async(t, name=f"rows.{i}", **how) for i, t in enumerate(mine)]
            forms = {
                "plain": [hvd.allgather(t, **how) for t in mine],
                "async": [hvd.synchronize(handle) for handle in handles],
                "grouped": hvd.grouped_allgather(mine, **how),
                "grouped async": hvd.synchronize(hvd.grouped_allgather_async(mine, name="rows", **how)),
            }
            for form, got in forms.items():
                for result, expected in zip(got, want, strict=True):
                    here.close(array(result), expected, form, exact=True)


@check(dtype=TORCH_DTYPES, seconds=30)
def broadcast_gives_the_roots_tensor_in_every_form(here: Here, dtype: str) -> None:
    with process_sets(here) as sets:
        for among, shape in itertools.product(sets, ((), (0,), (5, 3))):
            for root in (among.members[0], among.members[-1]):
                how = {"process_set": among.process_set}
                want = here.data(dtype, shape, root)
                mine = tensor(here.data(dtype, shape, here.rank))
                here.close(array(hvd.broadcast(mine, root, **how)), want, "plain", exact=True)
                got = hvd.synchronize(hvd.broadcast_async(mine, root, "named", **how))
                here.close(array(got), want, "async", exact=True)
                assert array(mine).tobytes() == here.data(dtype, shape, here.rank).tobytes(), "the input was written to"
                place = mine.clone()
                assert hvd.broadcast_(place, root, **how) is place
                here.close(array(place), want, "in place", exact=True)
                place = mine.clone()
                assert hvd.synchronize(hvd.broadcast_async_(place, root, **how)) is place
                here.close(array(place), want, "async in place", exact=True)


@check(dtype=TORCH_DTYPES, seconds=30)
def alltoall_sends_each_its_part(here: Here, dtype: str) -> None:
    with process_sets(here) as sets:
        for among in sets:
            how = {"process_set": among.process_set}
            n = len(among.members)
            inputs = [here.data(dtype, (2 * n, 3), r) for r in among.members]
            want = np.concatenate([each[2 * among.mine : 2 * among.mine + 2] for each in inputs])
            mine = tensor(inputs[among.mine])
            got = hvd.alltoall(mine, **how)
            here.close(array(got), want, "equal parts", exact=True)
            got, received = hvd.synchronize(hvd.alltoall_async(mine, name="equal", **how))
            here.close(array(got), want, "equal parts async", exact=True)
            assert received.tolist() == [2] * n and received.dtype == torch.int32
            # Member i sends i + j rows to member j, and member 0 nothing to itself.
            splits = [[i + j for j in range(n)] for i in range(n)]
            inputs = [here.data(dtype, (sum(splits[i]) + 1, 2), r, "own") for i, r in enumerate(among.members)]
            starts = [np.cumsum([0, *row]) for row in splits]
            parts = [inputs[i][starts[i][among.mine] : starts[i][among.mine + 1]] for i in range(n)]
            mine = tensor(inputs[among.mine])
            as_tensor = torch.tensor(splits[among.mine], dtype=torch.int32)
            for got, received in (
                hvd.alltoall(mine, splits[among.mine], **how),
                hvd.alltoall(mine, as_tensor, **how),
                hvd.synchronize(hvd.alltoall_async(mine, splits[among.mine], "own", **how)),
                hvd.synchronize(hvd.alltoall_async(mine, as_tensor, **how)),
            ):
                here.close(array(got), np.concatenate(parts), "own parts", exact=True)
                assert received.tolist() == [splits[i][among.mine] for i in range(n)]
                assert received.dtype == torch.int32


@check(dtype=TORCH_DTYPES, seconds=30)
def reducescatter_gives_each_its_rows_of_the_result(here: Here, dtype: str) -> None:
    with process_sets(here) as sets:
        for among, rows, (label, op) in itertools.product(
            sets, (0, 1, 5, 2 * here.size + 1), (("Sum", hvd.Sum), ("Average", hvd.Average))
        ):
            how = {"process_set": among.process_set, "op": op}
            n = len(among.members)
            sizes = [rows // n + (i < rows % n) for i in range(n)]
            start = sum(sizes[: among.mine])
            inputs = among.of(here.everyones(dtype, (rows, 3), label))
            mine = tensor(inputs[among.mine])
            want = reference(inputs, op)[start : start + sizes[among.mine]]
            here.close(array(hvd.reducescatter(mine, **how)), want, f"plain {label} of {rows} rows")
            got = hvd.synchronize(hvd.reducescatter_async(mine, "named", **how))
            here.close(array(got), want, f"async {label} of {rows} rows")
            for group in (
                hvd.grouped_reducescatter([mine, mine], **how),
                hvd.synchronize(hvd.grouped_reducescatter_async([mine, mine], "group", **how)),
            ):
                for got in group:
                    here.close(array(got), want, f"grouped {label} of {rows} rows")
            if dtype == "bool":
                continue  # has no factors
            pre, post = (2.0, 0.25) if dtype in INTEGERS else (0.5, 3.0)
            how |= {"prescale_factor": pre, "postscale_factor": post}
            want = reference(inputs, op, pre, post)[start : start + sizes[among.mine]]
            for got in (
                hvd.reducescatter(mine, **how),
                hvd.synchronize(hvd.reducescatter_async(mine, **how)),
                hvd.grouped_reducescatter([mine, mine], **how)[1],
                hvd.synchronize(hvd.grouped_reducescatter_async([mine], **how))[0],
            ):
                here.close(array(got), want, f"scaled {label} of {rows} rows")


@check()
def reducescatter_is_for_sums_and_averages(here: Here) -> None:
    for op in (hvd.Adasum, hvd.Min, hvd.Max, hvd.Product):
        with raises(hvd.HorovodInternalError, "Average"):
            hvd.reducescatter(torch.ones(here.size), op=op)
    with raises(ValueError):
        hvd.reducescatter(torch.tensor(1.0))
    assert (hvd.allreduce(torch.ones(1), op=SUM) == here.size).all()


@check()
def reducescatter_can_be_compressed(here: Here) -> None:
    got = hvd.reducescatter(torch.ones(here.size, 2) / 3, op=SUM, compression=hvd.Compression.fp16)
    assert got.dtype == torch.float32 and got.shape == (1, 2)
    assert got[0, 0].item() == np.float16(here.size * float(np.float16(1 / 3)))


@check()
def a_group_may_be_of_many_dtypes(here: Here) -> None:
    with process_sets(here) as sets:
        for among in sets:
            how = {"process_set": among.process_set}
            n = len(among.members)
            inputs = [among.of(here.everyones(dtype, (n, 3))) for dtype in TORCH_DTYPES if hasattr(torch, dtype)]
            mine = [tensor(each[among.mine]) for each in inputs]
            for got, each in zip(hvd.grouped_allreduce(mine, op=SUM, name="mixed", **how), inputs, strict=True):
                here.close(array(got), reference(each, SUM), str(each[0].dtype))
            for got, each in zip(hvd.grouped_allgather(mine, **how), inputs, strict=True):
                here.close(array(got), np.concatenate(each), str(each[0].dtype), exact=True)
            for got, each in zip(hvd.grouped_reducescatter(mine, op=SUM, **how), inputs, strict=True):
                here.close(array(got), reference(each, SUM)[among.mine : among.mine + 1], str(each[0].dtype))
    for group in (hvd.grouped_allreduce([]), hvd.grouped_allgather([]), hvd.grouped_reducescatter([])):
        assert len(group) == 0


@check(op=("Average", "Sum"))
def sparse_tensors_add_up(here: Here, op: str) -> None:
    with process_sets(here) as sets:
        for among, name in itertools.product(sets, (*FLOATS, "int32", "int64")):
            dtype = getattr(torch, name)
            if op == "Average" and not dtype.is_floating_point:
                continue
            n = len(among.members)
            # Two entries of each member: one of its own, one that all share; and none at all.
            rows = torch.zeros(n + 1, 3)
            rows[[0, 1 + among.mine]] = here.rank + 1.0
            how = {"name": "sparse", "op": getattr(hvd, op), "process_set": among.process_set}
            got = hvd.sparse_allreduce_async(rows.to(dtype).to_sparse(1), **how)()
            want = torch.zeros(n + 1, 3)
            want[0] = sum(r + 1 for r in among.members)
            for i, r in enumerate(among.members):
                want[1 + i] = r + 1
            assert got.dtype == dtype and got.is_coalesced()
            torch.testing.assert_close(got.to_dense(), (want / n if op == "Average" else want).to(dtype))
            empty = torch.zeros(4, 3, dtype=dtype).to_sparse(1)
            assert not hvd.sparse_allreduce_async(empty, **how)().to_dense().any()
    with raises(ValueError, "sparse"):
        hvd.sparse_allreduce_async(torch.ones(3), "dense", hvd.Sum)
    with raises(ValueError, "sparse_allreduce_async"):
        hvd.allreduce(empty)
    with raises(NotImplementedError):
        hvd.sparse_allreduce_async(empty, "max", hvd.Max)
