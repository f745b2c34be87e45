"""A trained model as a Transformer: it adds columns with predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.ml import Model

from hvdlite.spark.common import data
from hvdlite.spark.common.params import ModelParams, Saved

# Gets the arrays of the features; returns an array for each label.
Predict = Callable[[Sequence[Any]], Sequence[Any]]


class HorovodModel(Model, ModelParams, Saved):
    """Derive from it, with _predictor()."""

    def outputs(self) -> list[str]:
        return self.of("output_cols") or [f"{name}__output" for name in self.of("label_columns")]

    def _predictor(self) -> Predict:
        """Returns what each task of Spark calls. It is pickled."""
        raise NotImplementedError

    def _transform(self, dataset: Any) -> Any:
        from pyspark.sql import types

        features = list(self.of("feature_columns"))
        data.check_columns(dataset.columns, features)
        predict = self._predictor()
        names = self.outputs()
        sizes = _sizes(dataset, features, predict, len(names))
        schema = types.StructType(list(dataset.schema.fields))
        for name, size in zip(names, sizes, strict=True):
            one = types.DoubleType()
            schema = schema.add(name, one if size == 1 else types.ArrayType(one))
        vectors = [field.name for field in dataset.schema.fields if data.is_vector(field)]
        arrays = {name: f"{name}__array" for name in features if name in vectors}
        wide = dataset
        if arrays:
            from pyspark.ml.functions import vector_to_array

            wide = dataset.select(
                "*", *(vector_to_array(dataset[name]).alias(to) for name, to in arrays.items())
            )
        columns = [arrays.get(name, name) for name in features]
        return wide.mapInArrow(_adds(predict, columns, list(dataset.columns), names, sizes), schema)


def _sizes(dataset: Any, features: list[str], predict: Predict, count: int) -> list[int]:
    """Returns how many numbers each prediction has, by predicting one row here."""
    import pyarrow

    row = data.as_arrays(dataset.select(*features)).limit(1).collect()
    if not row:
        return [1] * count
    table = pyarrow.table({name: [row[0][name]] for name in features})
    found = predict([data.array(table, name) for name in features])
    if len(found) != count:
        raise ValueError(f"the model has {len(found)} outputs, and there are {count} output_cols")
    return [int(output.size) for output in found]


def _adds(
    predict: Predict, columns: list[str], kept: list[str], names: list[str], sizes: list[int]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def hvdlite_predict(batches: Iterator[Any]) -> Iterator[Any]:
        from hvdlite.spark.common import model

        for batch in batches:
            yield model.predicted(batch, predict, columns, kept, names, sizes)

    return hvdlite_predict


def predicted(
    batch: Any,
    predict: Predict,
    columns: list[str],
    kept: list[str],
    names: list[str],
    sizes: list[int],
) -> Any:
    """Returns the batch with the predictions. Runs in a task of Spark."""
    import numpy
    import pyarrow

    table = pyarrow.Table.from_batches([batch])
    outputs: Sequence[Any] = [numpy.zeros((0, size)) for size in sizes]
    if batch.num_rows:
        outputs = predict([data.array(table, name) for name in columns])
    added = []
    for output, size in zip(outputs, sizes, strict=True):
        flat = numpy.ascontiguousarray(output, dtype=numpy.float64).reshape(-1)
        values = pyarrow.array(flat)
        if size > 1:
            offsets = pyarrow.array(
                numpy.arange(batch.num_rows + 1, dtype=numpy.int32) * numpy.int32(size)
            )
            values = pyarrow.ListArray.from_arrays(offsets, values)
        added.append(values)
    arrays = [batch.column(batch.schema.get_field_index(name)) for name in kept]
    return pyarrow.RecordBatch.from_arrays([*arrays, *added], [*kept, *names])
