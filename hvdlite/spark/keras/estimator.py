"""KerasEstimator and KerasModel."""

from __future__ import annotations

from hvdlite.spark.common import params
from hvdlite.spark.common.backend import Backend
from hvdlite.spark.common.estimator import HorovodEstimator
from hvdlite.spark.common.model import HorovodModel, Predict
from hvdlite.spark.common.params import EstimatorParams as EstimatorParams
from hvdlite.spark.common.rows import Training
from hvdlite.spark.keras import training

OWN = {
    "custom_objects": (None, "layers and functions of the program, by name"),
    "checkpoint_callback": (None, "a callback that rank 0 alone has"),
    "backend_env": (None, "variables for the ranks"),
    "tensorflow_dataset_prefetch_buffer_size": (0, "accepted for Horovod's sake"),
}


class KerasEstimator(HorovodEstimator):
    """Trains a Keras model on the rows of a DataFrame, in several processes on Spark's executors.

    `optimizer`, `loss` and `metrics` are what `model.compile()` gets. `fit()` returns a KerasModel.
    The ranks have the driver's backend of Keras.
    """

    ROWS = {**params.COMMON, **OWN}

    def _needs(self) -> tuple[str, ...]:
        return ("optimizer", "loss")

    def _train(self, backend: Backend, asked: Training) -> KerasModel:
        model, custom = self.of("model"), self.of("custom_objects")
        job = training.KerasJob(
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


class KerasModel(HorovodModel):
    """A trained model. `transform(df)` adds its outputs to a DataFrame."""

    ROWS = {**params.MODEL, "custom_objects": OWN["custom_objects"]}

    def _predictor(self) -> Predict:
        return training.Predictor(
            training.dumped(self.of("model")), self.of("custom_objects"), training.backend_name()
        )
