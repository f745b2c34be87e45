"""horovod.common.elastic: the names of hvdlite.elastic, and those that only Horovod has."""

from hvdlite.elastic.loop import run_fn
from hvdlite.elastic.notifications import (
    HostUpdateResult,
    NotificationManager,
    notification_manager,
)
from hvdlite.elastic.state import ObjectState, State
from hvdlite.exceptions import HorovodInternalError, HostsUpdatedInterrupt

#: the name of this class in horovod.runner.elastic.worker
WorkerNotificationManager = NotificationManager

__all__ = [
    "HorovodInternalError",
    "HostUpdateResult",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "WorkerNotificationManager",
    "notification_manager",
    "run_fn",
]
