"""A trial of Optuna that all ranks have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from optuna.distributions import BaseDistribution
from optuna.trial import BaseTrial

from hvdlite.core.process_sets import ProcessSet, global_process_set
from hvdlite.optuna.agreement import Agreement
from hvdlite.optuna.exchange import Exchange


class TrialFacts(NamedTuple):
    """What a trial tells about itself."""

    number: int
    params: dict[str, Any]
    distributions: dict[str, BaseDistribution]
    user_attrs: dict[str, Any]
    datetime_start: datetime | None
    constraints: dict[str, float]

    @classmethod
    def of(cls, trial: BaseTrial) -> TrialFacts:
        return cls(
            trial.number,
            trial.params,
            trial.distributions,
            trial.user_attrs,
            trial.datetime_start,
            getattr(trial, "constraints", {}),  # Optuna 4 has none
        )


class Trial(BaseTrial):
    """A trial of the first rank of a process set, on all ranks of the set.

    The first rank passes Optuna's trial, and the others None. All of them make the same calls in
    the same order, and get the same results and the same errors.
    """

    def __init__(
        self, trial: BaseTrial | None = None, process_set: ProcessSet = global_process_set
    ) -> None:
        self.exchange = Exchange(process_set)
        #: Set when another rank's objective has failed: the trial is over on all ranks.
        self.over: Agreement | None = None
        self._trial = trial
        told = self._agree(self.exchange.by_all, "Trial()", self._tell)
        self._facts: TrialFacts = self._checked(told)

    def _tell(self) -> TrialFacts | None:
        return None if self._trial is None else TrialFacts.of(self._trial)

    def _checked(self, told: list[TrialFacts | None]) -> TrialFacts:
        first, *others = told
        if first is None or any(other is not None for other in others):
            have = [rank for rank, facts in zip(self.exchange.ranks, told, strict=True) if facts]
            raise ValueError(
                f"rank {self.exchange.ranks[0]} has to pass its trial to hvdlite.optuna.Trial(), "
                f"and the other ranks None, but ranks {have} have passed a trial"
            )
        return first

    def _agree(
        self, how: Callable[[str, Callable[[], Any]], Agreement], what: str,
        function: Callable[[], Any],
    ) -> list[Any]:  # fmt: skip
        agreed = how(what, function)
        if agreed.failure is not None:
            self.over = agreed
            raise agreed.failure.error()
        return agreed.values

    def _call(self, method: str, *args: Any, **options: Any) -> Any:
        """Calls the method of Optuna's trial."""

        def function() -> tuple[Any, TrialFacts | None]:
            return getattr(self._trial, method)(*args, **options), self._tell()

        name = repr(args[0]) if args and isinstance(args[0], str) else ""
        what = f"{method}({name})"
        value, self._facts = self._agree(self.exchange.by_first, what, function)[0]
        return value

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return float(self._call("suggest_float", name, low, high, step=step, log=log))

    def suggest_int(
        self, name: str, low: int, high: int, *, step: int = 1, log: bool = False
    ) -> int:
        return int(self._call("suggest_int", name, low, high, step=step, log=log))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._call("suggest_categorical", name, choices)

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        return self.suggest_float(name, low, high, step=q)

    def report(self, value: float, step: int, *, reduce: Literal["mean"] | None = None) -> None:
        """Reports the first rank's value; with `reduce="mean"`, the mean of all ranks' values."""
        if reduce not in (None, "mean"):
            raise ValueError(f"reduce={reduce!r} is not allowed: expected None or 'mean'")
        if reduce == "mean":
            values = self._agree(
                self.exchange.by_all, "report(reduce='mean')", lambda: float(value)
            )
            value = sum(values) / len(values)
        self._call("report", value, step)

    def should_prune(self) -> bool:
        return bool(self._call("should_prune"))

    def set_user_attr(self, key: str, value: Any) -> None:
        """Sets the first rank's value."""
        self._call("set_user_attr", key, value)

    def set_constraint(self, key: str, value: float) -> None:
        """Optuna 5 has it."""
        self._call("set_constraint", key, value)

    def set_system_attr(self, key: str, value: Any) -> None:
        """Optuna 4 has it."""
        self._call("set_system_attr", key, value)

    @property
    def system_attrs(self) -> dict[str, Any]:
        """Optuna 4 has them, and warns of their use."""

        def function() -> Any:
            return getattr(self._trial, "system_attrs", {})

        found = self._agree(self.exchange.by_first, "system_attrs", function)
        return dict(found[0])

    @property
    def number(self) -> int:
        return self._facts.number

    @property
    def params(self) -> dict[str, Any]:
        return self._facts.params

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        return self._facts.distributions

    @property
    def user_attrs(self) -> dict[str, Any]:
        return self._facts.user_attrs

    @property
    def constraints(self) -> dict[str, float]:
        return self._facts.constraints

    @property
    def datetime_start(self) -> datetime | None:
        return self._facts.datetime_start
