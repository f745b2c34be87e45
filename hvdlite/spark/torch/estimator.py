"""TorchEstimator and TorchModel."""

from __future__ import annotations

from hvdlite.spark.common import params
from hvdlite.spark.common.backend import Backend
from hvdlite.spark.common.estimator import HorovodEstimator
from hvdlite.spark.common.model import HorovodModel, Predict
from hvdlite.spark.common.params import EstimatorParams as EstimatorParams
from hvdlite.spark.common.rows import Training
from hvdlite.spark.torch import training

OWN = {
    "loss_constructors": (None, "functions that make the losses, instead of loss"),
    "input_shapes": (None, "the shape of each feature for the model, such as [-1, 28, 28]"),
    "train_minibatch_fn": (None, "a function that takes a step"),
    "backward_passes_per_step": (1, "how many batches a step of the optimizer has"),
}


class TorchEstimator(HorovodEstimator):
    """Trains a torch model on the rows of a DataFrame, in several processes on Spark's executors.

    `optimizer` is an optimizer of the model's parameters. `loss` gets the output and the label;
    with several labels it is a list. `fit()` returns a TorchModel.
    """

    ROWS = {**params.COMMON, **OWN}

    def _needs(self) -> tuple[str, ...]:
        losses = self.of("loss") is not None or self.of("loss_constructors") is not None
        return ("optimizer",) if losses else ("optimizer", "loss")

    def _train(self, backend: Backend, asked: Training) -> TorchModel:
        job = training.TorchJob(
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


class TorchModel(HorovodModel):
    """A trained model. `transform(df)` adds its outputs to a DataFrame."""

    ROWS = {**params.MODEL, "input_shapes": OWN["input_shapes"]}

    def _predictor(self) -> Predict:
        return training.Predictor(self.of("model"), self.of("input_shapes"))
