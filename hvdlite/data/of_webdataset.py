"""Webdataset shares out its files itself."""

from __future__ import annotations

from typing import Any

from hvdlite.data.wish import Wish


def refuse(given: Any, wish: Wish) -> Any:
    raise ValueError(
        "a WebDataset shares out its files itself: make it with "
        "nodesplitter=hvd.data.nodesplitter(), and pass its loader to hvd.data.in_step(), which "
        "gives all ranks equally many batches"
    )
