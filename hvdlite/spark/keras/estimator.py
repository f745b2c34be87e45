"""KerasEstimator and KerasModel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark import keyword_only
from pyspark.ml.param import Params

from hvdlite.spark.common import params
from hvdlite.spark.common.backend import Backend
from hvdlite.spark.common.estimator import HorovodEstimator
from hvdlite.spark.common.model import HorovodModel, Predict
from hvdlite.spark.common.rows import Training
from hvdlite.spark.keras import training

OWN = {
    "custom_objects": (None, "layers and functions of the program, by name"),
    "checkpoint_callback": (None, "a callback that rank 0 alone has"),
    "backend_env": (None, "variables for the ranks"),
    "tensorflow_dataset_prefetch_buffer_size": (0, "accepted for Horovod's sake"),
}


class KerasParams(Params):
    """What a KerasEstimator has more than others."""


params.add(KerasParams, OWN)


class KerasEstimator(HorovodEstimator, KerasParams):
    """Trains a Keras model on the rows of a DataFrame, in several processes on Spark's executors.

    `optimizer`, `loss` and `metrics` are what `model.compile()` gets. `fit()` returns a KerasModel.
    The ranks have the driver's backend of Keras.
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
        custom_objects: Mapping[str, Any] | None = None,
        optimizer: Any = None,
        loss: Any = None,
        loss_weights: Sequence[float] | None = None,
        sample_weight_col: str | None = None,
        gradient_compression: Any = None,
        metrics: Any = None,
        feature_cols: Sequence[str] | None = None,
        continuous_cols: Sequence[str] | None = None,
        categorical_cols: Sequence[str] | None = None,
        label_cols: Sequence[str] | None = None,
        validation: float | str | None = None,
        callbacks: Sequence[Any] | None = None,
        batch_size: int | None = None,
        val_batch_size: int | None = None,
        epochs: int | None = None,
        verbose: int | None = None,
        random_seed: int | None = None,
        shuffle_buffer_size: int | None = None,
        shuffle: bool = True,
        partitions_per_process: int | None = None,
        run_id: str | None = None,
        train_steps_per_epoch: int | None = None,
        validation_steps_per_epoch: int | None = None,
        transformation_fn: Callable[[Any], Any] | None = None,
        train_reader_num_workers: int | None = None,
        val_reader_num_workers: int | None = None,
        reader_pool_type: str = "thread",
        label_shapes: Sequence[Sequence[int]] | None = None,
        checkpoint_callback: Any = None,
        inmemory_cache_all: bool = False,
        backend_env: Mapping[str, str] | None = None,
        use_gpu: bool = True,
        mp_start_method: str | None = None,
        tensorflow_dataset_prefetch_buffer_size: int = 0,
    ) -> None:
        super().__init__()
        given = {name: value for name, value in self._input_kwargs.items() if value is not None}
        self._setDefault(**params.defaults({**params.COMMON, **OWN}))
        self._set(**given)

    def _needs(self) -> tuple[str, ...]:
        return ("optimizer", "loss")

    def _train(self, backend: Backend, asked: Training) -> KerasModel:
        model, custom = self.of("model"), self.of("custom_objects")
        job = training.Job(
            model=training.dumped(model),
            optimizer=training.described(self.of("optimizer")),
            loss=self.of("loss"),
            loss_weights=self.of("loss_weights"),
            metrics=self.of("metrics"),
            compression=self.of("gradient_compression"),
            callbacks=self.listed("callbacks"),
            checkpoint_callback=self.of("checkpoint_callback"),
            custom_objects=custom,
            label_shapes=self.of("label_shapes"),
        )
        env = {"KERAS_BACKEND": training.backend_name(), **(self.of("backend_env") or {})}
        weights, history = backend.run(training.train, (asked, job), env=env)[0]
        trained = training.loaded(job.model, custom)
        trained.set_weights(weights)
        return KerasModel(
            history=history,
            model=trained,
            feature_columns=list(asked.features),
            label_columns=list(asked.labels),
            run_id=asked.run_id,
            custom_objects=custom,
        )


MODEL = {**params.MODEL, "custom_objects": OWN["custom_objects"]}


class KerasModel(HorovodModel, KerasParams):
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
        custom_objects: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        given = {name: value for name, value in self._input_kwargs.items() if value is not None}
        self._setDefault(**params.defaults(MODEL))
        self._set(**given)

    def _predictor(self) -> Predict:
        return training.Predictor(
            training.dumped(self.of("model")), self.of("custom_objects"), training.backend_name()
        )
