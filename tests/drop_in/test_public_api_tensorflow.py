"""The names and signatures of Horovod's TensorFlow API, as a table: a program finds all of them
under the same import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("tensorflow", reason="tensorflow is not installed")

import hvdlite.tensorflow as hvd  # noqa: E402
from hvdlite import exceptions  # noqa: E402
from hvdlite.base.ops import Average, Sum  # noqa: E402

NAMES = """
    init shutdown is_initialized start_timeline stop_timeline size local_size cross_size rank
    local_rank cross_rank is_homogeneous mpi_threads_supported mpi_enabled mpi_built gloo_enabled
    gloo_built nccl_built ddl_built ccl_built cuda_built rocm_built ProcessSet global_process_set
    add_process_set remove_process_set Average Sum Adasum Min Max Product Compression
    rank_op local_rank_op size_op local_size_op process_set_included_op
    allreduce grouped_allreduce allgather grouped_allgather broadcast broadcast_ alltoall
    reducescatter grouped_reducescatter join _allreduce
    broadcast_global_variables BroadcastGlobalVariablesHook broadcast_variables broadcast_object
    broadcast_object_fn allgather_object SyncBatchNormalization DistributedOptimizer
    DistributedGradientTape PartialDistributedGradientTape LocalGradientAggregationHelper elastic
    handle_average_backwards_compatibility check_num_rank_power_of_2 gpu_available
    _executing_eagerly _make_subgraph _cache vars_to_refs refs_to_vars util
""".split()

SIGNATURES = """
allreduce(tensor, average=None, device_dense='', device_sparse='', compression=Compression.none,\
    op=None, prescale_factor=1.0, postscale_factor=1.0, name=None,\
    process_set=global_process_set, ignore_name_scope=False)
reducescatter(tensor, device_dense='', compression=Compression.none, op=Average, name=None,\
    process_set=global_process_set, ignore_name_scope=False, prescale_factor=1.0,\
    postscale_factor=1.0)
grouped_allreduce(tensors, average=None, device_dense='', device_sparse='',\
    compression=Compression.none, op=None, prescale_factor=1.0, postscale_factor=1.0,\
    process_set=global_process_set, ignore_name_scope=False, name=None)
grouped_reducescatter(tensors, device_dense='', compression=Compression.none, op=Average,\
    process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0)
broadcast_global_variables(root_rank)
BroadcastGlobalVariablesHook(root_rank, device='')
DistributedOptimizer(optimizer, name=None, use_locking=False, device_dense='', device_sparse='',\
    compression=Compression.none, sparse_as_dense=False, backward_passes_per_step=1, op=Average,\
    gradient_predivide_factor=1.0, average_aggregated_gradients=False, num_groups=0, groups=None,\
    process_set=global_process_set, scale_local_gradients=True)
DistributedGradientTape(gradtape, device_dense='', device_sparse='',\
    compression=Compression.none, sparse_as_dense=False, op=Average,\
    gradient_predivide_factor=1.0, num_groups=0, groups=None, process_set=global_process_set,\
    scale_local_gradients=True)
PartialDistributedGradientTape(gradtape, device_dense='', device_sparse='',\
    compression=Compression.none, sparse_as_dense=False, op=Average,\
    gradient_predivide_factor=1.0, num_groups=0, groups=None, process_set=global_process_set,\
    local_layers=None, scale_local_gradients=True)
allgather(tensor, name=None, ignore_name_scope=False, process_set=global_process_set)
grouped_allgather(tensors, name=None, ignore_name_scope=False, process_set=global_process_set)
broadcast(tensor, root_rank, name=None, ignore_name_scope=False, process_set=global_process_set)
broadcast_(variables, root_rank, name=None, process_set=global_process_set)
alltoall(tensor, splits=None, name=None, ignore_name_scope=False, process_set=global_process_set)
_allreduce(tensor, name=None, op=Sum, prescale_factor=1.0, postscale_factor=1.0,\
    ignore_name_scope=False, process_set=global_process_set)
join()
size_op(process_set_id=0, name=None)
process_set_included_op(process_set_id=0, name=None)
local_size_op(name=None)
rank_op(name=None)
local_rank_op(name=None)
broadcast_variables(variables, root_rank, process_set=global_process_set, inplace=False)
broadcast_object(obj, root_rank=0, session=None, name=None, process_set=global_process_set)
broadcast_object_fn(root_rank=0, session=None, name=None, process_set=global_process_set)
allgather_object(obj, session=None, name=None, process_set=global_process_set)
SyncBatchNormalization(fused=False, **kwargs)
""".strip().splitlines()

# What is ours: by keyword only and with a default, behind everything of Horovod's.
ADDED = {"DistributedOptimizer": ["strategy"]}


def _parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def test_every_name_is_there() -> None:
    assert not {name for name in NAMES if not hasattr(hvd, name)}
    assert {name for name in NAMES if not name.startswith("_")} <= set(hvd.__all__)
    assert not [n for n in hvd.__all__ if n.startswith("_")]


def test_what_horovod_does_not_have_here_is_not_here() -> None:
    for name in ("poll", "synchronize", "allreduce_async"):
        assert not hasattr(hvd, name)


def test_hvdlites_exceptions_are_here_and_catch_what_tensorflow_raises() -> None:
    from hvdlite.tensorflow import errors

    for name in exceptions.__all__:
        assert getattr(hvd, name) is getattr(exceptions, name)
        assert issubclass(getattr(errors, name), getattr(hvd, name))


@pytest.mark.parametrize("line", SIGNATURES, ids=lambda line: line.partition("(")[0])
def test_signatures_are_horovods(line: str) -> None:
    name, _, arguments = line.rstrip(")").partition("(")
    scope = {
        "Average": Average,
        "Sum": Sum,
        "Compression": hvd.Compression,
        "global_process_set": hvd.global_process_set,
    }
    expected = _parameters(eval(f"lambda {arguments}: None", scope))
    expected += [(added, inspect.Parameter.KEYWORD_ONLY, None) for added in ADDED.get(name, [])]
    assert _parameters(getattr(hvd, name)) == expected


def test_the_modules_that_programs_import() -> None:
    import hvdlite.tensorflow.mpi_ops as mpi_ops

    from hvdlite.tensorflow import compression, functions

    assert mpi_ops.allreduce is hvd.allreduce and callable(mpi_ops.rank_op)
    assert (
        compression.Compression is hvd.Compression
        and functions.broadcast_object is hvd.broadcast_object
    )
    assert hvd.util._executing_eagerly() is True


def test_small_helpers() -> None:
    import tensorflow as tf

    assert [n for n in range(10) if hvd.check_num_rank_power_of_2(n)] == [1, 2, 4, 8]
    assert hvd.handle_average_backwards_compatibility(None, None) == hvd.Average
    variables = [tf.Variable(1.0), tf.Variable(2.0)]
    assert [
        a is b
        for a, b in zip(hvd.refs_to_vars(hvd.vars_to_refs(variables)), variables, strict=True)
    ] == [True] * 2
    calls = []
    cached = hvd._cache(lambda n: calls.append(n) or n)
    assert (cached(3), cached(3), calls) == (3, 3, [3])


@pytest.mark.costly
def test_importing_it_loads_no_other_framework() -> None:
    # TensorFlow itself loads jax where that is installed.
    program = (
        "import sys, tensorflow; before = set(sys.modules); import hvdlite.tensorflow\n"
        "print([m for m in ('torch', 'jax') if m in sys.modules and m not in before])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().splitlines()[-1] == "[]"
