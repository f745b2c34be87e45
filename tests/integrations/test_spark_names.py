"""Programs for horovod.spark find its names, with Horovod's parameters."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from machine import within
from spark_session import needs_spark

needs_spark()
pytest.importorskip("torch", reason="torch is not installed")

pytestmark = pytest.mark.full

RUN = (
    "fn args kwargs num_proc start_timeout use_mpi use_gloo extra_mpi_args env stdout stderr "
    "verbose nics prefix_output_with_timestamp executable"
)
RUN_ELASTIC = (
    "fn args kwargs num_proc min_num_proc max_num_proc start_timeout elastic_timeout reset_limit "
    "env stdout stderr verbose nics prefix_output_with_timestamp min_np max_np"
)
TORCH = (
    "num_proc data_module model backend store optimizer loss loss_constructors metrics "
    "loss_weights sample_weight_col gradient_compression feature_cols continuous_cols "
    "categorical_cols input_shapes validation label_cols callbacks batch_size val_batch_size "
    "epochs verbose random_seed shuffle_buffer_size shuffle partitions_per_process run_id "
    "train_minibatch_fn train_steps_per_epoch validation_steps_per_epoch transformation_fn "
    "train_reader_num_workers val_reader_num_workers reader_pool_type label_shapes "
    "inmemory_cache_all use_gpu mp_start_method backward_passes_per_step"
)
DEFAULTS = {
    "batch_size": 32, "epochs": 1, "verbose": 1, "partitions_per_process": 10,
    "train_reader_num_workers": 2, "val_reader_num_workers": 2, "reader_pool_type": "thread",
    "shuffle": True, "inmemory_cache_all": False, "use_gpu": True, "backward_passes_per_step": 1,
}  # fmt: skip


def _parameters(function: object) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]  # type: ignore[arg-type]


def test_parameters_are_horovods() -> None:
    from hvdlite import spark
    from hvdlite.spark.torch import TorchEstimator

    assert _parameters(spark.run) == RUN.split()
    assert _parameters(spark.run_elastic) == RUN_ELASTIC.split()
    assert set(_parameters(TorchEstimator)) == set(TORCH.split())
    with pytest.raises(TypeError, match="TorchEstimator.. has no parameter epoch, steps"):
        TorchEstimator(epochs=1, epoch=1, steps=2)
    estimator = TorchEstimator()
    for name, default in DEFAULTS.items():
        assert estimator.getOrDefault(name) == default
        camel = "".join(word.title() for word in name.split("_"))
        assert getattr(estimator, f"get{camel}")() == default
        getattr(estimator, f"set{camel}")(default)


def test_keras_parameters_are_horovods() -> None:
    pytest.importorskip("keras", reason="keras is not installed")
    from hvdlite.spark.keras import KerasEstimator

    without = {"loss_constructors", "input_shapes", "train_minibatch_fn",
               "backward_passes_per_step"}  # fmt: skip
    own = {"custom_objects", "checkpoint_callback", "backend_env",
           "tensorflow_dataset_prefetch_buffer_size"}  # fmt: skip
    assert set(_parameters(KerasEstimator)) == set(TORCH.split()) - without | own
    assert KerasEstimator().getTensorflowDatasetPrefetchBufferSize() == 0


def test_lightning_parameters_are_horovods() -> None:
    from hvdlite.spark.lightning import TorchEstimator

    without = {"continuous_cols", "categorical_cols", "backward_passes_per_step"}
    own = {
        "transformation_edit_fields", "transformation_removed_fields", "trainer_args", "num_gpus",
        "logger", "log_every_n_steps", "loader_num_epochs", "terminate_on_nan", "profiler",
        "debug_data_loader", "train_async_data_loader_queue_size",
        "val_async_data_loader_queue_size",
    }  # fmt: skip
    assert set(_parameters(TorchEstimator)) == set(TORCH.split()) - without | own
    estimator = TorchEstimator()
    assert estimator.getLogEveryNSteps() == 50 and estimator.getReaderPoolType() is None


PROGRAM = """
from hvdlite import compat
compat.activate()
import horovod.spark, hvdlite.spark
assert horovod.spark is hvdlite.spark and horovod.spark.run is hvdlite.spark.run
from horovod.spark.common.backend import Backend, SparkBackend, default_num_proc
from horovod.spark.common.store import (
    DBFSLocalStore, FilesystemStore, HDFSStore, LocalStore, Store)
from horovod.spark.task import get_available_devices
from horovod.spark.torch import TorchEstimator, TorchModel
from horovod.spark.lightning import TorchEstimator, TorchModel
from horovod.spark.lightning.estimator import MIN_PL_VERSION, EstimatorParams
from horovod.spark.torch.estimator import EstimatorParams as of_torch
assert of_torch is EstimatorParams and issubclass(TorchEstimator, EstimatorParams)
assert MIN_PL_VERSION == "2.6"
assert horovod.spark.run_elastic is hvdlite.spark.run_elastic
assert get_available_devices() == []
try:
    horovod.spark.run(print)
except RuntimeError as error:
    print(error)
"""


def test_the_alias_has_its_modules(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=within(60),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hvdlite.spark needs a running session")
