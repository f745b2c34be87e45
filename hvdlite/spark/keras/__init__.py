"""Estimators for Keras: `KerasEstimator(...).fit(df)` returns a `KerasModel`."""

from hvdlite.spark.needs import need

need("keras", "hvdlite.spark.keras", "test")

from hvdlite.spark.keras.estimator import KerasEstimator, KerasModel  # noqa: E402

__all__ = ["KerasEstimator", "KerasModel"]
