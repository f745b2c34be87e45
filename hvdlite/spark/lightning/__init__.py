"""Estimators for Lightning: `TorchEstimator(...).fit(df)` trains a LightningModule and returns a
`TorchModel`."""

from hvdlite.spark.needs import need

need("torch", "hvdlite.spark.lightning", "test")

from hvdlite.spark.lightning.estimator import TorchEstimator, TorchModel  # noqa: E402

__all__ = ["TorchEstimator", "TorchModel"]
