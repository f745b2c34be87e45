"""TorchEstimator and TorchModel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark import keyword_only
from pyspark.ml.param import Params

from hvdlite.spark.common import params
from hvdlite.spark.common.backend import Backend
from hvdlite.spark.common.estimator import HorovodEstimator
from hvdlite.spark.common.model import HorovodModel, Predict
from hvdlite.spark.common.rows import Training
from hvdlite.spark.torch import training

OWN = {
    "loss_constructors": (None, "functions that make the losses, instead of loss"),
    "input_shapes": (None, "the shape of each feature for the model, such as [-1, 28, 28]"),
    "train_minibatch_fn": (None, "a function that takes a step"),
    "backward_passes_per_step": (1, "how many batches a step of the optimizer has"),
}


class TorchParams(Params):
    """What a TorchEstimator has more than others."""


params.add(TorchParams, OWN)


class TorchEstimator(HorovodEstimator, TorchParams):
    """Trains a torch model on the rows of a DataFrame, in several processes on Spark's executors.

    `optimizer` is an optimizer of the model's parameters. `loss` gets the output and the label;
    with several labels it is a list. `fit()` returns a TorchModel.
    """

    @keyword_only
    def __init__(
        self,
        *,
        num_proc: int | None = None,
        data_module: Any = None,
        model: Any = None,
        backend: Backend | None = None,
        store: Any = None,
        optimizer: Any = None,
        loss: Any = None,
        loss_constructors: Any = None,
        metrics: Any = None,
        loss_weights: Sequence[float] | None = None,
        sample_weight_col: str | None = None,
        gradient_compression: Any = None,
        feature_cols: Sequence[str] | None = None,
        continuous_cols: Sequence[str] | None = None,
        categorical_cols: Sequence[str] | None = None,
        input_shapes: Sequence[Sequence[int]] | None = None,
        validation: float | str | None = None,
        label_cols: Sequence[str] | None = None,
        callbacks: Any = None,
        batch_size: int | None = None,
        val_batch_size: int | None = None,
        epochs: int | None = None,
        verbose: int = 1,
        random_seed: int | None = None,
        shuffle_buffer_size: int | None = None,
        shuffle: bool = True,
        partitions_per_process: int | None = None,
        run_id: str | None = None,
        train_minibatch_fn: Callable[..., Any] | None = None,
        train_steps_per_epoch: int | None = None,
        validation_steps_per_epoch: int | None = None,
        transformation_fn: Callable[[Any], Any] | None = None,
        train_reader_num_workers: int | None = None,
        val_reader_num_workers: int | None = None,
        reader_pool_type: str = "thread",
        label_shapes: Sequence[Sequence[int]] | None = None,
        inmemory_cache_all: bool = False,
        use_gpu: bool = True,
        mp_start_method: str | None = None,
        backward_passes_per_step: int = 1,
    ) -> None:
        super().__init__()
        given = {name: value for name, value in self._input_kwargs.items() if value is not None}
        self._setDefault(**params.defaults({**params.COMMON, **OWN}))
        self._set(**given)

    def _needs(self) -> tuple[str, ...]:
        losses = self.of("loss") is not None or self.of("loss_constructors") is not None
        return ("optimizer",) if losses else ("optimizer", "loss")

    def _train(self, backend: Backend, asked: Training) -> TorchModel:
        job = training.Job(
            model=self.of("model"),
            optimizer=self.of("optimizer"),
            losses=self.listed("loss"),
            loss_constructors=self.listed("loss_constructors"),
            loss_weights=self.of("loss_weights"),
            metrics=self.listed("metrics"),
            compression=self.of("gradient_compression"),
            input_shapes=self.of("input_shapes"),
            label_shapes=self.of("label_shapes"),
            step=self.of("train_minibatch_fn"),
            backward_passes_per_step=self.of("backward_passes_per_step"),
        )
        training.check(job)
        trained = backend.run(training.train, (asked, job))[0]
        return TorchModel(
            history=trained.history,
            model=training.loaded(trained.model),
            feature_columns=list(asked.features),
            label_columns=list(asked.labels),
            run_id=asked.run_id,
            input_shapes=self.of("input_shapes"),
        )


MODEL = {**params.MODEL, "input_shapes": OWN["input_shapes"]}


class TorchModel(HorovodModel, TorchParams):
    """A trained model. `transform(df)` adds its outputs to a DataFrame."""

    @keyword_only
    def __init__(
        self,
        *,
        history: Any = None,
        model: Any = None,
        feature_columns: Sequence[str] | None = None,
        label_columns: Sequence[str] | None = None,
        output_cols: Sequence[str] | None = None,
        run_id: str | None = None,
        input_shapes: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        given = {name: value for name, value in self._input_kwargs.items() if value is not None}
        self._setDefault(**params.defaults(MODEL))
        self._set(**given)

    def _predictor(self) -> Predict:
        return training.Predictor(self.of("model"), self.of("input_shapes"))
