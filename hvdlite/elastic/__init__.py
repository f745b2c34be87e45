"""Elastic training: a job whose ranks may die, leave and come while it trains.

    state = hvd.elastic.ObjectState(weights=weights, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, 90):
            ...
            state.commit()

    train(state)

This module is for numpy arrays and objects; each framework's adapter has an `elastic` of its own.
docs/how-it-works/elastic.md follows a generation through these modules.

    loop            START HERE: `run` calls the program's function in generation after generation
    session         this process in generation after generation, while it trains
    in_place        loops that are not left: how the ranks come to the same moment, newcomers
    state           what all ranks have in common: its copies, and which boundary it is at
    handlers        how the parts of a state are copied, put back, moved and described
    turns           where the loops of the ranks are, and who is ahead when one is lost
    randomness      random numbers of a step that is done again
    gate            what says whether an optimizer's update has begun
    driver_notices  the thread that hears the driver's notices while a member trains
    notices         announced ends: who leaves, how a rank asks to leave, SIGTERM
    notifications   what Horovod's programs hear of hosts
    horovod_names   horovod.common.elastic
"""

from hvdlite.data.cursor import Cursor
from hvdlite.elastic.loop import generation, member, run, slot
from hvdlite.elastic.notices import Notice, leave, leaving
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
