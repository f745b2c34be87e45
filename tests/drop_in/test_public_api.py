"""The names and signatures of Horovod's torch API, as a table: a program finds all of them under
the same import."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import hvdlite.torch as hvd  # noqa: E402
from hvdlite import _core  # noqa: E402
from hvdlite.torch.ops import Average  # noqa: E402

NAMES = """
    elastic Compression allgather_object broadcast_object broadcast_optimizer_state
    broadcast_parameters allreduce allreduce_async allreduce_ allreduce_async_ grouped_allreduce
    grouped_allreduce_async grouped_allreduce_ grouped_allreduce_async_ sparse_allreduce_async
    allgather allgather_async grouped_allgather grouped_allgather_async broadcast broadcast_async
    broadcast_ broadcast_async_ alltoall alltoall_async reducescatter reducescatter_async
    grouped_reducescatter grouped_reducescatter_async join barrier poll synchronize init shutdown
    is_initialized start_timeline stop_timeline size local_size cross_size rank local_rank
    cross_rank mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built nccl_built
    ddl_built ccl_built cuda_built rocm_built ProcessSet global_process_set add_process_set
    remove_process_set Average Sum Adasum Min Max Product HorovodInternalError DistributedOptimizer
    SyncBatchNorm
""".split()

SIGNATURES = """
allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0,\
    postscale_factor=1.0, process_set=global_process_set)
allreduce(tensor, average=None, name=None, compression=Compression.none, op=None,\
    prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set)
allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0,\
    postscale_factor=1.0, process_set=global_process_set)
allreduce_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,\
    process_set=global_process_set)
grouped_allreduce_async(tensors, average=None, name=None, op=None, prescale_factor=1.0,\
    postscale_factor=1.0, process_set=global_process_set)
grouped_allreduce(tensors, average=None, name=None, compression=Compression.none, op=None,\
    prescale_factor=1.0, postscale_factor=1.0, process_set=global_process_set)
grouped_allreduce_async_(tensors, average=None, name=None, op=None, prescale_factor=1.0,\
    postscale_factor=1.0, process_set=global_process_set)
grouped_allreduce_(tensors, average=None, name=None, op=None, prescale_factor=1.0,\
    postscale_factor=1.0, process_set=global_process_set)
sparse_allreduce_async(tensor, name, op, process_set=global_process_set)
allgather_async(tensor, name=None, process_set=global_process_set)
allgather(tensor, name=None, process_set=global_process_set)
grouped_allgather_async(tensors, name=None, process_set=global_process_set)
grouped_allgather(tensors, name=None, process_set=global_process_set)
broadcast_async(tensor, root_rank, name=None, process_set=global_process_set)
broadcast(tensor, root_rank, name=None, process_set=global_process_set)
broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set)
broadcast_(tensor, root_rank, name=None, process_set=global_process_set)
alltoall_async(tensor, splits=None, name=None, process_set=global_process_set)
alltoall(tensor, splits=None, name=None, process_set=global_process_set)
reducescatter_async(tensor, name=None, op=Average, process_set=global_process_set,\
    prescale_factor=1.0, postscale_factor=1.0)
reducescatter(tensor, name=None, compression=Compression.none, op=Average,\
    process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0)
grouped_reducescatter_async(tensors, name=None, op=Average, process_set=global_process_set,\
    prescale_factor=1.0, postscale_factor=1.0)
grouped_reducescatter(tensors, name=None, compression=Compression.none, op=Average,\
    process_set=global_process_set, prescale_factor=1.0, postscale_factor=1.0)
poll(handle)
synchronize(handle)
join(device=-1)
barrier(process_set=global_process_set)
init(comm=None, process_sets=None)
is_initialized()
size()
local_size()
cross_size()
rank()
local_rank()
cross_rank()
start_timeline(file_path, mark_cycles=False)
stop_timeline()
mpi_threads_supported()
mpi_enabled()
mpi_built()
gloo_enabled()
gloo_built()
nccl_built()
ddl_built()
ccl_built()
cuda_built()
rocm_built()
ProcessSet(ranks_or_comm)
add_process_set(process_set)
remove_process_set(process_set)
broadcast_parameters(params, root_rank)
broadcast_optimizer_state(optimizer, root_rank, model=None)
broadcast_object(obj, root_rank=0, name=None, process_set=global_process_set)
allgather_object(obj, name=None)
DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none,\
    backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, num_groups=0,\
    groups=None, sparse_as_dense=False, process_set=global_process_set)
SyncBatchNorm(num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True)
""".strip().splitlines()

# What this release does not have yet. The list may only become shorter.
MISSING: set[str] = set()

# What is ours: by keyword only and with a default, behind everything of Horovod's.
ADDED = {
    "init": ["rank", "size", "rendezvous", "secret"],
    "add_process_set": ["name"],
    "DistributedOptimizer": ["sufficient_factors", "strategy"],
}


def _parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def test_every_name_is_there() -> None:
    assert {name for name in NAMES if not hasattr(hvd, name)} == MISSING
    assert set(NAMES) - MISSING <= set(hvd.__all__)


_VISIBLE = """
import importlib, inspect, sys
package = importlib.import_module(sys.argv[1])
def ours(name, value):
    return name[0] != "_" and not inspect.ismodule(value)
visible = {name for name, value in vars(package).items() if ours(name, value)}
listed = {name for name in package.__all__ if ours(name, getattr(package, name))}
# Python binds annotations and TYPE_CHECKING; a layer of Keras is imported only when it is asked
# for.
print(sorted(listed ^ visible - {"annotations", "TYPE_CHECKING"} - {"SyncBatchNormalization"}))
"""


@pytest.mark.costly
@pytest.mark.parametrize("module", ["torch.api", "tensorflow", "keras", "jax"])
def test_all_is_what_is_visible(module: str) -> None:
    framework = module.split(".")[0]
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    command = [sys.executable, "-c", _VISIBLE, f"hvdlite.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert set(ast.literal_eval(done.stdout.splitlines()[-1])) <= {"SyncBatchNormalization"}


@pytest.mark.parametrize("line", SIGNATURES, ids=lambda line: line.partition("(")[0])
def test_signatures_are_horovods(line: str) -> None:
    name, _, arguments = line.rstrip(")").partition("(")
    if name in MISSING:
        pytest.skip("not built yet: see MISSING")
    scope = {
        "Average": Average,
        "Compression": hvd.Compression,
        "global_process_set": hvd.global_process_set,
    }
    expected = _parameters(eval(f"lambda {arguments}: None", scope))
    expected += [(added, inspect.Parameter.KEYWORD_ONLY, None) for added in ADDED.get(name, [])]
    assert _parameters(getattr(hvd, name)) == expected


def test_the_reductions_are_horovods_numbers() -> None:
    assert [hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product] == [0, 1, 2, 3, 4, 5]


def test_the_modules_that_programs_import() -> None:
    from hvdlite.torch import compression, elastic, functions, mpi_ops

    assert (
        mpi_ops is hvd.mpi_ops
        and mpi_ops.allreduce is hvd.allreduce
        and callable(mpi_ops.is_homogeneous)
    )
    assert mpi_ops.size is hvd.size and mpi_ops._basics.rank is hvd.rank
    assert functions.broadcast_object is hvd.broadcast_object
    assert compression.Compression is hvd.Compression and elastic is hvd.elastic
    import hvdlite.torch.mpi_ops as imported

    assert imported is hvd.mpi_ops


def test_elastic_has_horovods_names_and_signatures() -> None:
    from hvdlite.torch.elastic import ElasticSampler, TorchState
    from hvdlite.torch.elastic.state import get_handler_registry, set_handler_registry

    ours = {"GoingOn", "going_on"}
    assert set(hvd.elastic.__all__) == {"ElasticSampler", "TorchState", "run"} | ours
    assert list(inspect.signature(TorchState).parameters)[:2] == ["model", "optimizer"]
    assert str(inspect.signature(ElasticSampler)).startswith(
        "(dataset: 'Any', shuffle: 'bool' = True, seed: 'int' = 0)"
    )
    set_handler_registry(get_handler_registry())
    for name in (
        "commit save restore sync reset on_reset on_hosts_updated register_reset_callbacks".split()
    ):
        assert callable(getattr(TorchState, name))
    assert hvd.elastic.run is not None and issubclass(TorchState, hvd.elastic.ObjectState)
    with pytest.raises(AttributeError):
        hvd.elastic.no_such_name  # noqa: B018


def test_a_compressor_compresses_and_restores() -> None:
    import torch

    for name, narrow in (
        ("none", torch.float64),
        ("fp16", torch.float16),
        ("bf16", torch.bfloat16),
    ):
        compressor = getattr(hvd.Compression, name)
        small, context = compressor.compress(torch.ones(3, dtype=torch.float64))
        assert (
            small.dtype == narrow and compressor.decompress(small, context).dtype == torch.float64
        )
        number = torch.ones(3, dtype=torch.int64)
        small, context = compressor.compress(number)
        assert small is number and compressor.decompress(small, context) is number


def test_what_the_build_can_do_is_asked_before_init() -> None:
    assert hvd.gloo_built() is True and hvd.gloo_enabled() is True
    assert type(hvd.nccl_built()) is int  # as the machine has it; see tests/unit/test_gpu_report.py
    # as the machine has it; see tests/multiprocess/test_mpi_programs.py
    assert type(hvd.mpi_built()) is bool
    assert hvd.cuda_built() is bool(_core.gpu_kernels())
    for ask in (hvd.mpi_enabled, hvd.rocm_built, hvd.ddl_built, hvd.ccl_built):
        assert ask() is False
    for ask in (hvd.rank, hvd.size, hvd.local_rank, hvd.mpi_threads_supported):
        with pytest.raises(ValueError, match="hvd.init()"):
            ask()


def test_the_framework_free_package_imports_no_framework() -> None:
    program = (
        "import sys, hvdlite, hvdlite.core.arrays.ops, hvdlite.core.gradients; print('torch' in "
        "sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_what_the_backend_of_torch_distributed_does_not_need_is_not_loaded() -> None:
    program = (
        "import sys, hvdlite.torch.distributed\n"
        "unused = 'hvdlite.adapter', 'hvdlite.elastic', 'hvdlite.data', 'hvdlite.torch.api'\n"
        "print([name for name in sys.modules if name.startswith(unused)])\n"
        "from hvdlite.torch import *\n"
        "print(DistributedOptimizer.__name__, mpi_ops is sys.modules['hvdlite.torch'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "DistributedOptimizer True"]
