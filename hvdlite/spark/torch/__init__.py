"""Estimators for torch: `TorchEstimator(...).fit(df)` returns a `TorchModel`."""

from hvdlite.spark.needs import need

need("torch", "hvdlite.spark.torch", "test")

from hvdlite.spark.torch.estimator import TorchEstimator, TorchModel  # noqa: E402

__all__ = ["TorchEstimator", "TorchModel"]
