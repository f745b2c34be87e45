"""What the ranks of a TorchEstimator do."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from hvdlite.job import basics
from hvdlite.spark.common import rows
from hvdlite.spark.common.rows import Training, shaped
from hvdlite.spark.task import get_available_devices


@dataclass(frozen=True)
class TorchJob:
    """What a user has given of torch's. One pickle has the model and its optimizer, so both keep
    the same parameters."""

    model: Any
    optimizer: Any
    losses: Sequence[Any]
    loss_constructors: Sequence[Any]
    loss_weights: Sequence[float] | None
    metrics: Sequence[Any]
    compression: Any
    input_shapes: Sequence[Sequence[int]] | None
    label_shapes: Sequence[Sequence[int]] | None
    step: Callable[..., Any] | None
    backward_passes_per_step: int


class Trained(NamedTuple):
    """What rank 0 returns."""

    model: bytes
    history: list[dict[str, Any]]


def check(job: TorchJob) -> None:
    """Raises an error for what would otherwise be one in every rank."""
    if not isinstance(job.optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer={job.optimizer!r}: expected a torch.optim.Optimizer")
    own = {id(parameter) for parameter in job.model.parameters()}
    given = [each for group in job.optimizer.param_groups for each in group["params"]]
    if not all(id(parameter) in own for parameter in given):
        raise ValueError("the optimizer has parameters that are not those of the model")


def train(asked: Training, job: TorchJob) -> Trained | None:
    """Runs in each rank; rank 0 returns the result."""
    import hvdlite.torch as hvd

    basics.init()
    torch.manual_seed(asked.seed)
    device = _device(asked.use_gpu, basics.local_rank())
    trainer = _Trainer(asked, job, device)
    arrays = asked.read(asked.train_path, basics.rank(), basics.size())
    most = max(hvd.allgather_object(rows.rows_of(arrays)))
    val = asked.val_path and asked.read(asked.val_path, basics.rank(), basics.size())
    history = []
    for epoch in range(asked.epochs):
        random = (
            np.random.default_rng([asked.seed, epoch, basics.rank()]) if asked.shuffle else None
        )
        said = {"epoch": epoch, "train": trainer.epoch(
            rows.batches(arrays, asked.batch_size, most, asked.steps, random)
        )}  # fmt: skip
        if val:
            own = rows.rows_of(val)
            said["validation"] = trainer.validate(
                rows.batches(val, asked.val_batch_size, own, asked.val_steps)
            )
        history.append(said)
        if basics.rank() == 0:
            trainer.save()
            if asked.verbose:
                print(_line(said), flush=True)
    basics.shutdown()
    return Trained(dumped(trainer.model.cpu()), history) if trainer.is_first else None


def _device(use_gpu: bool, local_rank: int) -> torch.device:
    if not use_gpu or not torch.cuda.is_available():
        return torch.device("cpu")
    given = get_available_devices()
    return torch.device("cuda", int(given[0]) if given else local_rank)


class _Trainer:
    """The model and what changes it."""

    def __init__(self, asked: Training, job: TorchJob, device: torch.device) -> None:
        import hvdlite.torch as hvd

        self.model = job.model.to(device)
        self.is_first = basics.rank() == 0
        self._asked, self._job, self._device = asked, job, device
        optimizer = job.optimizer
        if self.is_first:
            self._resume(optimizer)
        _move(optimizer, device)
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        self._optimizer = hvd.DistributedOptimizer(
            optimizer,
            named_parameters=self.model.named_parameters(),
            compression=job.compression or hvd.Compression.none,
            backward_passes_per_step=job.backward_passes_per_step,
        )
        self._losses = _losses(job, by_row=asked.weight is not None)
        self._dtype = dtype_of(self.model)
        self._pending = 0

    def epoch(self, batches: Iterable[dict[str, Any]]) -> dict[str, float]:
        self.model.train()
        means = _Means()
        for batch in batches:
            inputs, labels, weights = self._tensors(batch)
            if self._job.step is not None:
                outputs, loss = self._job.step(
                    self.model, self._optimizer, self._matched, self._loss, inputs, labels, weights
                )
                outputs = _several(outputs)
            else:
                outputs, loss = self._step(inputs, labels, weights)
            means.add(len(inputs[0]), self._measured(loss, outputs, labels))
        return means.of_all_ranks()

    def validate(self, batches: Iterable[dict[str, Any]]) -> dict[str, float]:
        self.model.eval()
        means = _Means()
        with torch.no_grad():
            for batch in batches:
                inputs, labels, weights = self._tensors(batch)
                outputs, labels = self._matched(self.model(*inputs), labels)
                loss = self._loss(outputs, labels, weights)
                means.add(len(inputs[0]), self._measured(loss, outputs, labels))
        return means.of_all_ranks()

    def save(self) -> None:
        """Writes the checkpoint of this epoch in place of the last one."""
        store = self._asked.store
        if store.saving_runs():
            state = {"model": self.model.state_dict(), "optimizer": self._optimizer.state_dict()}
            buffer = io.BytesIO()
            torch.save(state, buffer)
            store.write(self._asked.checkpoint, buffer.getvalue())

    def _resume(self, optimizer: torch.optim.Optimizer) -> None:
        """A run with this name may have been here before."""
        store, path = self._asked.store, self._asked.checkpoint
        if store.saving_runs() and store.exists(path):
            state = torch.load(io.BytesIO(store.read(path)), map_location=self._device)
            self.model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])

    def _step(self, inputs: Any, labels: Any, weights: Any) -> tuple[list[Any], Any]:
        outputs, labels = self._matched(self.model(*inputs), labels)
        loss = self._loss(outputs, labels, weights)
        loss.backward()
        self._pending += 1
        if self._pending == self._job.backward_passes_per_step:
            self._optimizer.step()
            self._optimizer.zero_grad()
            self._pending = 0
        return outputs, loss

    def _tensors(self, batch: dict[str, Any]) -> tuple[list[Any], list[Any], Any]:
        asked, job = self._asked, self._job
        how = self._dtype, self._device
        inputs = tensors(batch, asked.features, job.input_shapes, *how)
        labels = tensors(batch, asked.labels, job.label_shapes, *how)
        weights = tensors(batch, [asked.weight], None, *how)[0] if asked.weight else None
        return inputs, labels, weights

    def _matched(self, outputs: Any, labels: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """A column of single labels gets the shape of an output with one number for each row, or a
        loss would compare each output with each label."""
        outputs = _several(outputs)
        matched = [
            label.reshape(output.shape)
            if label.dim() == 1 and output.dim() > 1 and label.numel() == output.numel()
            else label
            for output, label in zip(outputs, labels, strict=True)
        ]
        return outputs, matched

    def _loss(self, outputs: Any, labels: Any, weights: Any) -> Any:
        total: Any = 0.0
        shares = self._job.loss_weights or [1.0] * len(self._losses)
        pairs = zip(self._losses, _several(outputs), _several(labels), shares, strict=True)
        for loss, output, label, share in pairs:
            one = loss(output, label)
            if weights is not None:
                by_row = one.reshape(len(weights), -1).mean(dim=1)
                one = (by_row * weights).sum() / weights.sum()
            total = total + share * one
        return total

    def _measured(self, loss: Any, outputs: Any, labels: Any) -> dict[str, float]:
        found = {"loss": float(loss)}
        with torch.no_grad():
            for metric in self._job.metrics:
                name = getattr(metric, "__name__", type(metric).__name__)
                for column, output, label in zip(self._asked.labels, outputs, labels, strict=True):
                    key = name if len(self._asked.labels) == 1 else f"{column}_{name}"
                    found[key] = float(metric(output, label))
        return found


def dtype_of(model: Any) -> torch.dtype:
    """Returns the type of the model's parameters."""
    kinds = (each.dtype for each in model.parameters() if each.is_floating_point())
    return next(kinds, torch.float32)


def tensors(
    batch: Mapping[str, Any],
    names: Sequence[str],
    shapes: Sequence[Sequence[int]] | None,
    dtype: torch.dtype,
    device: torch.device | None = None,
) -> list[torch.Tensor]:
    """Returns these columns. Numbers with a point get this type."""
    found = []
    for i, name in enumerate(names):
        values = np.ascontiguousarray(shaped(batch[name], shapes[i] if shapes else None))
        tensor = torch.as_tensor(values, device=device)
        found.append(tensor.to(dtype) if tensor.is_floating_point() else tensor)
    return found


class _Means:
    """Means over the rows of all ranks."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums: dict[str, float] = {}

    def add(self, count: int, values: dict[str, float]) -> None:
        self._rows += count
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + count * value

    def of_all_ranks(self) -> dict[str, float]:
        import hvdlite.torch as hvd

        own = torch.tensor([self._rows, *self._sums.values()], dtype=torch.float64)
        total = hvd.allreduce(own, op=hvd.Sum, name="estimator.means")
        return {name: float(total[i + 1] / total[0]) for i, name in enumerate(self._sums)}


def _several(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _losses(job: TorchJob, by_row: bool) -> list[Callable[..., Any]]:
    """The functions that compute the losses; `by_row`: one number for each row."""
    if job.loss_constructors:
        how = {"reduction": "none"} if by_row else {}
        return [make(**how) for make in job.loss_constructors]
    return [_by_row(loss) for loss in job.losses] if by_row else list(job.losses)


def _by_row(loss: Any) -> Callable[..., Any]:
    if hasattr(loss, "reduction"):
        changed = copy.copy(loss)
        changed.reduction = "none"
        return changed  # type: ignore[no-any-return]
    return lambda output, label: loss(output, label, reduction="none")


def _move(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    for state in optimizer.state.values():
        for name, value in state.items():
            if torch.is_tensor(value) and value.dim():
                state[name] = value.to(device)


def _line(said: dict[str, Any]) -> str:
    words = [f"epoch {said['epoch'] + 1}"]
    for purpose, mark in (("train", ""), ("validation", "val_")):
        words += [f"{mark}{name} {value:.4f}" for name, value in said.get(purpose, {}).items()]
    return "  ".join(words)


def dumped(model: Any) -> bytes:
    """cloudpickle: the class may be of the program or of a notebook."""
    import cloudpickle

    return bytes(cloudpickle.dumps(model))


def loaded(data: bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(data)


class Predictor:
    """Predicts batches in a task of Spark. The model is pickled when Spark pickles this."""

    def __init__(self, model: Any, input_shapes: Sequence[Sequence[int]] | None) -> None:
        self._model, self._shapes = model, input_shapes

    def __call__(self, features: Sequence[Any]) -> list[Any]:
        self._model.eval()
        columns = {f"{i}": np.array(values) for i, values in enumerate(features)}  # own memory
        inputs = tensors(columns, list(columns), self._shapes, dtype_of(self._model))
        with torch.no_grad():
            return [output.numpy() for output in _several(self._model(*inputs))]
