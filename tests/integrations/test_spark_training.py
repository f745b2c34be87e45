"""What the ranks of Estimators do, without Spark: hvdlite.run() starts them, and a file of Parquet
is in the store already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

pytest.importorskip("pyspark", reason='pyspark is not installed: pip install ".[spark]"')
pyarrow = pytest.importorskip("pyarrow", reason='pip install ".[spark]"')

import hvdlite  # noqa: E402
from hvdlite.spark.common import model as models  # noqa: E402
from hvdlite.spark.common.backend import Backend  # noqa: E402
from hvdlite.spark.common.data import write_partition  # noqa: E402
from hvdlite.spark.common.store import Store  # noqa: E402

pytestmark = [pytest.mark.watchdog(120), pytest.mark.full]


class Local(Backend):
    """Two ranks on this machine."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> list[Any]:
        def called(*given: Any) -> Any:
            import os

            os.environ.update(env or {})
            return fn(*given)

        return hvdlite.run(called, args, kwargs, num_proc=2)

    def num_processes(self) -> int:
        return 2


def _filled(folder: Path) -> tuple[Store, Any]:
    """Rows with y = 2 a - b + 1, a fifth of them for validation."""
    store = Store.create(str(folder))
    values = np.random.default_rng(0).normal(size=(200, 2))
    batch = pyarrow.RecordBatch.from_pydict(
        {"features": values.tolist(), "y": (values @ [2, -1] + 1).tolist()}
    )
    paths = store.get_train_data_path(), store.get_val_data_path()
    assert list(write_partition(iter([batch]), store, paths, ["features", "y"], 0.2, 0))
    return store, batch


def _predicts(trained: Any, batch: Any) -> None:
    # As Spark does with what its tasks call, and save() with the model.
    predict = cloudpickle.loads(cloudpickle.dumps(trained._predictor()))
    assert cloudpickle.loads(cloudpickle.dumps(trained.getModel())) is not None
    found = models.predicted(
        batch, predict, ["features"], ["features", "y"], trained.outputs(), [1]
    )
    assert found.schema.names == ["features", "y", "y__output"]
    errors = np.abs(np.array(found["y"]) - np.array(found["y__output"]))
    assert errors.max() < 0.3


def test_keras(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras", reason="keras is not installed")
    from hvdlite.spark.keras import KerasEstimator

    store, batch = _filled(tmp_path)
    keras.utils.set_random_seed(0)
    given: dict[str, Any] = dict(
        backend=Local(), store=store, run_id="mine",
        model=keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]),
        optimizer=keras.optimizers.SGD(0.1), loss="mse", metrics=["mae"],
        feature_cols=["features"], label_cols=["y"], batch_size=10, verbose=0,
    )  # fmt: skip
    trained = KerasEstimator(**given, epochs=6).fit_on_parquet()
    history = trained.getHistory()
    assert len(history["loss"]) == 6 and history["val_loss"][-1] < 0.01 < history["loss"][0]
    _predicts(trained, batch)
    assert store.get_checkpoints("mine")
    again = KerasEstimator(**given, epochs=1).fit_on_parquet()
    assert again.getHistory()["loss"][0] < 0.01, "it has not gone on from its checkpoint"


def test_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from hvdlite.spark.torch import TorchEstimator

    store, batch = _filled(tmp_path)
    model = torch.nn.Linear(2, 1)
    trained = TorchEstimator(
        backend=Local(), store=store, model=model, loss=torch.nn.MSELoss(),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1), feature_cols=["features"],
        label_cols=["y"], batch_size=10, epochs=6, verbose=0,
    ).fit_on_parquet()  # fmt: skip
    assert trained.getHistory()[-1]["validation"]["loss"] < 0.01
    _predicts(trained, batch)


def _lightning_module() -> Any:
    import lightning.pytorch as pl
    import torch

    class Linear(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def forward(self, features: Any) -> Any:
            return self.layer(features)

        def loss(self, batch: Any) -> Any:
            assert sorted(batch) == ["features", "y"]
            return torch.nn.functional.mse_loss(self(batch["features"])[:, 0], batch["y"])

        def training_step(self, batch: Any, number: int) -> Any:
            loss = self.loss(batch)
            self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("validation", self.loss(batch), sync_dist=True)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Linear()


def test_lightning(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("lightning", reason='pip install ".[lightning]"')
    from hvdlite.spark.lightning import TorchEstimator

    store, batch = _filled(tmp_path)
    given: dict[str, Any] = dict(
        backend=Local(), store=store, run_id="mine", feature_cols=["features"], label_cols=["y"],
        batch_size=10, trainer_args={"gradient_clip_val": 100.0}, terminate_on_nan=True,
    )  # fmt: skip
    trained = TorchEstimator(**given, model=_lightning_module(), epochs=6).fit_on_parquet()
    history = trained.getHistory()
    assert [each["epoch"] for each in history] == list(range(6))
    assert history[-1]["validation"] < 0.01 < history[0]["loss"]
    _predicts(trained, batch)
    assert store.get_checkpoints("mine")
    again = TorchEstimator(**given, model=_lightning_module(), epochs=1).fit_on_parquet()
    assert again.getHistory()[0]["loss"] < 0.01, "it has not gone on from its checkpoint"

    with pytest.raises(TypeError, match="model is a Linear, and has to be a LightningModule"):
        TorchEstimator(**given, model=torch.nn.Linear(2, 1)).fit_on_parquet()
    with pytest.raises(ValueError, match="loss: the LightningModule itself has them"):
        TorchEstimator(**given, model=_lightning_module(), loss=[1]).fit_on_parquet()
