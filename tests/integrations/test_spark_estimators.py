"""Estimators on a real Spark: one cluster for this file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spark_session import SLOW, classic, needs_spark

needs_spark()
torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = [pytest.mark.watchdog(2 * SLOW), pytest.mark.full]

ROWS = 200


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with classic(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture(scope="module")
def frame(session: Any) -> Any:
    """y = 2 a - b + 1; `features` is a vector of MLlib, and `held` marks every tenth row."""
    from pyspark.ml.linalg import Vectors

    random = np.random.default_rng(0)
    values = random.normal(size=(ROWS, 2))
    rows = [
        (Vectors.dense(a, b), float(a), [float(b)], float(2 * a - b + 1), i % 10 == 0)
        for i, (a, b) in enumerate(values.tolist())
    ]
    return session.createDataFrame(rows, ["features", "a", "b", "y", "held"]).cache()


def _linear(inputs: int = 2) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Linear(inputs, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_torch_fits_transforms_and_is_saved(frame: Any, session: Any, tmp_path: Path) -> None:
    from pyspark.ml import PipelineModel

    from hvdlite.spark.common.store import Store
    from hvdlite.spark.torch import TorchEstimator, TorchModel

    store = Store.create(str(tmp_path / "store"))
    model, optimizer = _linear()
    estimator = TorchEstimator(
        num_proc=2,
        model=model,
        optimizer=optimizer,
        loss=torch.nn.MSELoss(),
        metrics=[torch.nn.L1Loss()],
        store=store,
        feature_cols=["features"],
        label_cols=["y"],
        validation="held",
        batch_size=10,
        epochs=6,
        partitions_per_process=1,
        run_id="first",
        random_seed=1,
    )
    assert estimator.getBatchSize() == 10 and estimator.setVerbose(0).getVerbose() == 0
    trained = estimator.fit(frame)

    history = trained.getHistory()
    assert [each["epoch"] for each in history] == list(range(6))
    assert history[-1]["validation"]["loss"] < 0.01 < history[0]["train"]["loss"]
    assert "L1Loss" in history[-1]["train"]
    assert store.get_checkpoints("first"), "rank 0 has written no checkpoint"
    left = [p for p in (tmp_path / "store").iterdir() if p.name.startswith("intermediate")]
    assert left == [], "data of the DataFrame are left in the store"

    found = trained.transform(frame)
    assert found.columns == [*frame.columns, "y__output"]
    rows = found.select("y", "y__output", "features").collect()
    assert len(rows) == ROWS
    assert max(abs(row["y"] - row["y__output"]) for row in rows) < 0.3

    path = str(tmp_path / "model")
    trained.write().overwrite().save(path)
    again = TorchModel.load(path)
    assert again.getFeatureColumns() == ["features"] and again.getHistory() == history
    for mine, other in zip(
        trained.getModel().parameters(), again.getModel().parameters(), strict=True
    ):
        assert torch.equal(mine, other)
    PipelineModel([trained]).save(str(tmp_path / "pipeline"))
    with pytest.raises(ValueError, match="has no Estimator or model of hvdlite"):
        TorchModel.load(str(tmp_path / "pipeline"))
    assert PipelineModel.load(str(tmp_path / "pipeline")).stages[0].getHistory() == history
    estimator.save(str(tmp_path / "estimator"))
    assert TorchEstimator.load(str(tmp_path / "estimator")).getEpochs() == 6


def test_torch_with_two_inputs_weights_and_files_of_parquet(frame: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions

    from hvdlite.spark.common.store import Store
    from hvdlite.spark.torch import TorchEstimator

    class Sum(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 1)

        def forward(self, a: Any, b: Any) -> Any:
            return self.linear(torch.cat([a, b], 1))

    store = Store.create(str(tmp_path))
    data = frame.select("a", "b", "y", functions.lit(2.0).alias("weight"))
    data.repartition(3).write.parquet(store.get_train_data_path())
    assert store.is_parquet_dataset(store.get_train_data_path())
    model = Sum()
    trained = TorchEstimator(
        num_proc=2,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        loss=torch.nn.functional.mse_loss,
        store=store,
        feature_cols=["a", "b"],
        input_shapes=[[-1, 1], [-1, 1]],
        label_cols=["y"],
        sample_weight_col="weight",
        batch_size=10,
        epochs=6,
        verbose=0,
    ).fit_on_parquet()
    assert trained.getHistory()[-1]["train"]["loss"] < 0.01
    weights = trained.getModel().linear.weight.detach().numpy()[0]
    assert np.allclose(weights, [2, -1], atol=0.1)


def test_an_autoencoder_has_its_features_for_labels(frame: Any, tmp_path: Path) -> None:
    from hvdlite.spark.common.store import Store
    from hvdlite.spark.torch import TorchEstimator

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained = TorchEstimator(
        num_proc=2, model=model, optimizer=optimizer, loss=torch.nn.MSELoss(),
        store=Store.create(str(tmp_path)), feature_cols=["features"], label_cols=["features"],
        batch_size=10, epochs=2, partitions_per_process=1, verbose=0,
    ).fit(frame)  # fmt: skip
    first, last = (each["train"]["loss"] for each in trained.getHistory())
    assert last < first
    assert len(trained.transform(frame).first()["features__output"]) == 2


def test_errors_come_before_the_ranks(frame: Any, tmp_path: Path) -> None:
    from hvdlite.spark.common.store import Store
    from hvdlite.spark.torch import TorchEstimator

    model, optimizer = _linear()
    given = dict(
        num_proc=2, model=model, optimizer=optimizer, loss=torch.nn.MSELoss(),
        feature_cols=["features"], label_cols=["y"], partitions_per_process=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match="needs store="):
        TorchEstimator(**given).fit(frame)
    store = Store.create(str(tmp_path))
    with pytest.raises(ValueError, match="has no column nothing, only features, a, b, y, held"):
        TorchEstimator(**{**given, "feature_cols": ["nothing"]}, store=store).fit(frame)
    with pytest.raises(ValueError, match="has 1 rows for training, and 2 ranks"):
        TorchEstimator(**given, store=store).fit(frame.limit(1))
    with pytest.raises(ValueError, match="parameters that are not those of the model"):
        TorchEstimator(**{**given, "optimizer": _linear()[1]}, store=store).fit(frame)


def test_keras_fits_transforms_and_is_saved(frame: Any, tmp_path: Path) -> None:
    keras = pytest.importorskip("keras", reason="keras is not installed")

    from hvdlite.spark.common.store import Store
    from hvdlite.spark.keras import KerasEstimator, KerasModel

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    trained = KerasEstimator(
        num_proc=2,
        model=model,
        optimizer=keras.optimizers.SGD(0.1),
        loss="mse",
        metrics=["mae"],
        store=Store.create(str(tmp_path / "store")),
        feature_cols=["features"],
        label_cols=["y"],
        validation=0.2,
        batch_size=10,
        epochs=6,
        partitions_per_process=1,
        verbose=0,
    ).fit(frame)
    history = trained.getHistory()
    assert len(history["loss"]) == 6 and history["val_loss"][-1] < 0.01
    rows = trained.transform(frame).select("y", "y__output").collect()
    assert max(abs(row["y"] - row["y__output"]) for row in rows) < 0.3
    trained.save(str(tmp_path / "model"))
    again = KerasModel.load(str(tmp_path / "model")).getModel()
    for mine, other in zip(trained.getModel().get_weights(), again.get_weights(), strict=True):
        assert np.array_equal(mine, other)
