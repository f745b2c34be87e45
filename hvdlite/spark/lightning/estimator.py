"""TorchEstimator for LightningModules."""

from __future__ import annotations

from hvdlite import lightning
from hvdlite.lightning import packages
from hvdlite.spark.common import params
from hvdlite.spark.common.backend import Backend
from hvdlite.spark.common.estimator import HorovodEstimator
from hvdlite.spark.common.params import EstimatorParams as EstimatorParams
from hvdlite.spark.common.rows import Training
from hvdlite.spark.lightning import training
from hvdlite.spark.torch.estimator import OWN as OF_TORCH
from hvdlite.spark.torch.estimator import TorchModel
from hvdlite.spark.torch.training import loaded

__all__ = ["TorchEstimator", "TorchModel"]

# Programs compare it with Lightning's version.
MIN_PL_VERSION = ".".join(map(str, packages.OLDEST))

OWN = {
    "reader_pool_type": (None, "accepted for Horovod's sake"),
    "transformation_edit_fields": (None, "accepted for Horovod's sake"),
    "transformation_removed_fields": (None, "accepted for Horovod's sake"),
    "trainer_args": (None, "more arguments of Lightning's Trainer"),
    "num_gpus": (None, "accepted for Horovod's sake: a rank uses one GPU"),
    "logger": (None, "a logger of Lightning"),
    "log_every_n_steps": (50, "steps between two entries of the logger"),
    "loader_num_epochs": (None, "accepted for Horovod's sake"),
    "terminate_on_nan": (False, "whether a loss that is not finite is an error"),
    "profiler": (None, "a profiler of Lightning"),
    "debug_data_loader": (False, "accepted for Horovod's sake"),
    "train_async_data_loader_queue_size": (None, "accepted for Horovod's sake"),
    "val_async_data_loader_queue_size": (None, "accepted for Horovod's sake"),
}
_NOT = ("continuous_cols", "categorical_cols", "backward_passes_per_step")
# What a LightningModule has itself.
_OF_THE_MODULE = (
    "optimizer", "loss", "loss_constructors", "loss_weights", "metrics", "train_minibatch_fn",
)  # fmt: skip


class TorchEstimator(HorovodEstimator):
    """Trains a LightningModule on the rows of a DataFrame, in several processes on Spark's
    executors.

    The module's steps get each batch as a dictionary of tensors, by column. Lightning's Trainer
    gets `callbacks`, `logger`, `profiler` and `trainer_args`. `fit()` returns a TorchModel.
    """

    ROWS = {
        name: row for name, row in {**params.COMMON, **OF_TORCH, **OWN}.items() if name not in _NOT
    }

    def _check(self) -> None:
        super()._check()
        given = [name for name in _OF_THE_MODULE if self.of(name) is not None]
        if given:
            raise ValueError(
                f"{', '.join(given)}: the LightningModule itself has them. Leave them out, or "
                "train a module of torch with hvdlite.spark.torch.TorchEstimator."
            )
        lightning.make(training.package_of(self.of("model")))

    def _train(self, backend: Backend, asked: Training) -> TorchModel:
        job = training.LightningJob(
            model=self.of("model"),
            package=training.package_of(self.of("model")),
            compression=self.of("gradient_compression"),
            input_shapes=self.of("input_shapes"),
            label_shapes=self.of("label_shapes"),
            callbacks=self.listed("callbacks"),
            logger=self.of("logger"),
            log_every_n_steps=self.of("log_every_n_steps"),
            profiler=self.of("profiler"),
            terminate_on_nan=self.of("terminate_on_nan"),
            trainer_args=self.of("trainer_args") or {},
        )
        trained = backend.run(training.train, (asked, job))[0]
        return TorchModel(
            history=trained.history,
            model=loaded(trained.model),
            feature_columns=list(asked.features),
            label_columns=list(asked.labels),
            run_id=asked.run_id,
            input_shapes=self.of("input_shapes"),
        )
