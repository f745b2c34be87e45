"""Elastic training: a job whose ranks may die, leave and come while it trains.

    state = hvd.elastic.ObjectState(weights=weights, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, 90):
            ...
            state.commit()

    train(state)

This module is for numpy arrays and objects; each framework's adapter has an `elastic` of its own.
"""

from hvdlite.data.cursor import Cursor
from hvdlite.elastic.loop import run
from hvdlite.elastic.notices import Notice, leave, leaving
from hvdlite.elastic.place import generation, member, slot
from hvdlite.elastic.state import ObjectState, State
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt

__all__ = [
    "Cursor",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "Notice",
    "ObjectState",
    "State",
    "generation",
    "leave",
    "leaving",
    "member",
    "run",
    "slot",
]
