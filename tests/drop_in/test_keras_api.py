"""The names and signatures of Horovod's Keras API, as a table. Read in a process of its own, which
loads one Keras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
from tier import one_of

NAMES = """
    init shutdown is_initialized start_timeline stop_timeline size local_size cross_size rank
    local_rank cross_rank mpi_threads_supported mpi_enabled mpi_built gloo_enabled gloo_built
    nccl_built ddl_built ccl_built cuda_built rocm_built Average Sum Adasum Compression callbacks
    elastic DistributedOptimizer PartialDistributedOptimizer broadcast_global_variables allreduce
    allgather broadcast reducescatter load_model ProcessSet global_process_set add_process_set
    remove_process_set callbacks.BroadcastGlobalVariablesCallback callbacks.MetricAverageCallback
    callbacks.LearningRateScheduleCallback callbacks.LearningRateWarmupCallback
    callbacks.BestModelCheckpoint
""".split()

# Further arguments of ours come behind these, by keyword only.
SIGNATURES = """
DistributedOptimizer(optimizer, name=None, device_dense='', device_sparse='',\
    compression=Compression.none, sparse_as_dense=False, gradient_predivide_factor=1.0,\
    op=Average, num_groups=0, groups=None)
PartialDistributedOptimizer(optimizer, name=None, device_dense='', device_sparse='',\
    compression=Compression.none, sparse_as_dense=False, gradient_predivide_factor=1.0,\
    op=Average, backward_passes_per_step=1, average_aggregated_gradients=False, groups=None,\
    process_set=global_process_set, local_layers=None, scale_local_gradients=True)
allreduce(value, name=None, average=True, prescale_factor=1.0, postscale_factor=1.0, op=None,\
    compression=Compression.none)
broadcast_global_variables(root_rank)
allgather(value, name=None)
broadcast(value, root_rank, name=None)
reducescatter(value, name=None, op=Average)
load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none,\
    legacy_opts=False)
callbacks.BroadcastGlobalVariablesCallback(root_rank, device='', local_variables=None)
callbacks.MetricAverageCallback(device='')
callbacks.LearningRateScheduleCallback(initial_lr, multiplier, start_epoch=0, end_epoch=None,\
    staircase=True, momentum_correction=True, steps_per_epoch=None)
callbacks.LearningRateWarmupCallback(initial_lr, warmup_epochs=5, momentum_correction=True,\
    steps_per_epoch=None, verbose=0)
callbacks.BestModelCheckpoint(monitor='val_loss', verbose=0, save_weights_only=False,\
    mode='auto', save_freq='epoch')
""".strip().splitlines()

# What hvdlite.tensorflow.keras has instead.
OTHERWISE = """
DistributedOptimizer(optimizer, name=None, device_dense='', device_sparse='',\
    compression=Compression.none, sparse_as_dense=False, gradient_predivide_factor=1.0,\
    op=Average, backward_passes_per_step=1, average_aggregated_gradients=False, num_groups=0,\
    groups=None, process_set=global_process_set, scale_local_gradients=True)
allreduce(value, name=None, average=None, prescale_factor=1.0, postscale_factor=1.0, op=None,\
    compression=Compression.none)
""".strip().splitlines()

_READ = """
import inspect, json, operator, sys
import {package} as hvd
from {package} import callbacks, elastic  # as programs import them
import {package}.callbacks

names, lines = json.load(sys.stdin)
scope = {{name: getattr(hvd, name) for name in ("Average", "Compression", "global_process_set")}}

def parameters(function):
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.default) for p in found if p.kind is not p.KEYWORD_ONLY]

def get(name):
    try:
        return operator.attrgetter(name)(hvd)
    except AttributeError:
        return None

wrong = [name for name in names if get(name) is None]
for line in lines:
    name, _, arguments = line.rstrip(")").partition("(")
    if parameters(get(name)) != parameters(eval(f"lambda {{arguments}}: None", scope)):
        wrong.append(f"{{name}}{{inspect.signature(get(name))}}")
frameworks = ("tensorflow", "torch", "jax")
loaded = [m for f in frameworks for m in (f, f"hvdlite.{{f}}.ops") if m in sys.modules]
print(json.dumps([wrong, loaded, [hvd.Average, hvd.Sum, hvd.Adasum]]))
"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("package", "flavour"),
    [
        *(("hvdlite.keras", f) for f in one_of(("torch", "jax", "tf_keras"), "names of Keras")),
        ("hvdlite.tensorflow.keras", "tensorflow"),
    ],
)
def test_names_and_signatures_are_horovods(package: str, flavour: str) -> None:
    for module in ("tf_keras",) if flavour == "tf_keras" else ("keras", flavour):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    chosen = {"TF_USE_LEGACY_KERAS": "1"} if flavour == "tf_keras" else {"KERAS_BACKEND": flavour}
    table = {line.partition("(")[0]: line for line in SIGNATURES}
    if package == "hvdlite.tensorflow.keras":
        table |= {line.partition("(")[0]: line for line in OTHERWISE}
    done = subprocess.run(
        [sys.executable, "-c", _READ.format(package=package)],
        input=json.dumps([NAMES, list(table.values())]),
        capture_output=True,
        text=True,
        env=os.environ | chosen,
    )
    assert done.returncode == 0, done.stderr
    answer: Any = json.loads(done.stdout.splitlines()[-1])
    wrong, loaded, reductions = answer
    assert wrong == [] and reductions == [0, 1, 2]
    # hvdlite's adapters are loaded when they are needed, and none but the backend's.
    assert not {"hvdlite.torch.ops", "hvdlite.jax.ops"} & set(loaded)
