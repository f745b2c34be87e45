"""Between an optimizer and its reducer: what was asked for, what has synchronized the step, and
which parameters there are."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from hvdlite.adapter import names
from hvdlite.adapter.agreement.drift_guard import DriftGuard
from hvdlite.adapter.hooks.primitives import Gradients
from hvdlite.adapter.hooks.reducer import GradientReducer
from hvdlite.adapter.step import Options, check_passes

Pairs = list[tuple[str, Any]]  # names and parameters


class Shared:
    """There is no reducer where this rank reduces with no other. `rebuild` is what a pickle
    calls."""

    def __init__(self, options: Options, pairs: Pairs, rebuild: Callable[..., Any]) -> None:
        self.options = options
        self.rebuild = rebuild
        self.named = pairs
        self.synchronizes = True
        self.compression = options.compression
        self.reducer: GradientReducer | None = None
        self.guard: DriftGuard | None = None
        self._scaled: Any = None  # the scaler's step in which gradients were reduced for it

    @property
    def synchronized(self) -> str:
        return "" if self.reducer is None else self.reducer.synchronized

    @synchronized.setter
    def synchronized(self, how: str) -> None:
        if self.reducer is not None:
            self.reducer.synchronized = how

    @property
    def under_way(self) -> bool:
        return self.reducer is not None and self.reducer.under_way

    def why_too_early(self) -> str:
        return "" if self.reducer is None else self.reducer.why_too_early()

    def synchronize(self) -> None:
        if self.reducer is not None:
            self.reducer.synchronize()

    def synchronize_once(self, step: Any) -> None:
        """Reduces what has not been reduced in this step of a scaler."""
        # A step that the scaler has skipped leaves its mark.
        if not self.synchronized or (
            self.synchronized == "by a scaler" and step is not self._scaled
        ):
            self.synchronize()
            self.synchronized, self._scaled = "by a scaler", step

    def forget(self) -> None:
        self.synchronized = ""
        if self.reducer is not None:
            self.reducer.abandon()

    def set_passes(self, passes: int) -> None:
        check_passes(passes)
        if self.reducer is not None:
            self.reducer.set_passes(passes)
        self.options = replace(self.options, passes=passes)

    def start(
        self, scope: str, gradients: Gradients, kind: type[GradientReducer] = GradientReducer
    ) -> None:
        self.reducer = kind(replace(self.options, scope=scope), gradients)
        self.guard = self.reducer.guard

    def stop(self) -> None:
        """Gradients stay on this rank from now on."""
        if self.reducer is not None:
            self.reducer.stop()
        self.reducer = self.guard = None

    def adopt(
        self, known: MutableMapping[Any, str], groups: Sequence[Sequence[Any]], own_names: Pairs
    ) -> None:
        """Names the parameters of these groups that are not `known`, and has their gradients
        reduced. `own_names`: what the optimizer calls them, if the program has not said."""
        pairs = self.named or own_names
        named = {id(p) for _, p in pairs}
        added = [p for group in groups for p in group if p not in known]
        if known and any(id(p) not in named for p in added):
            pairs = []  # added later, without a name
        labels = names.assigned(groups, pairs)
        known.update((parameter, labels[id(parameter)]) for parameter in added)
        if self.reducer is not None:
            for parameter in added:
                self.reducer.expect(parameter, known[parameter])
            self.reducer.thaw()
