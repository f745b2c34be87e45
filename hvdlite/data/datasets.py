"""A cursor's samples as data sets of Keras and of TensorFlow; imports the one that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hvdlite.data.ahead import Ahead


def keras_dataset(
    ahead: Callable[[], Ahead],
    load: Callable[[Any], Any],
    options: Mapping[str, Any],
) -> Any:
    """Keras asks for batches by number, from several threads and ahead of the training."""
    import keras

    class Dealt(keras.utils.PyDataset):  # type: ignore[misc]
        """The rest of one epoch; each epoch is dealt at its begin."""

        def __init__(self) -> None:
            super().__init__(**options)
            self._dealt = ahead()

        def __len__(self) -> int:
            return len(self._present())

        def __getitem__(self, number: int) -> Any:
            return load(self._present()[number])

        def on_epoch_begin(self) -> None:
            self._dealt = ahead()

        on_epoch_end = on_epoch_begin

        def _present(self) -> Ahead:
            if not self._dealt.is_current():
                self._dealt = ahead()
            return self._dealt

    return Dealt()


def tensorflow_dataset(ahead: Callable[[], Ahead]) -> Any:
    """Each iteration deals the rest of the epoch in which it begins."""
    import tensorflow as tf

    signature = tf.TensorSpec([None], tf.int64)
    return tf.data.Dataset.from_generator(lambda: iter(ahead()), output_signature=signature)
