"""A process group whose members the program chooses, again and again: torch 2.14's fault
tolerance.

    dist.init_process_group("hvdlite", enable_reconfigure=True)
    handle = dist._get_reconfigure_handle()         # the program takes it to the others
    dist._reconfigure(uuid, handles).wait()

Nobody meets before the first reconfigure(). A rank that is lost, or abort(), ends the job, and the
next reconfigure() makes another one of those that it names. The group stays the same object.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from torch import distributed as dist
from torch._C import _distributed_c10d as _c10d

from hvdlite.core import engine
from hvdlite.core.process_sets import ProcessSet, set_id_of
from hvdlite.job import basics
from hvdlite.job.process_sets import add_process_set
from hvdlite.job.reconfiguration import Member
from hvdlite.torch.distributed.group import ProcessGroup, Tensors
from hvdlite.torch.distributed.messages import GlooForMessages, JobsStore
from hvdlite.torch.distributed.work import DONE

_dist: Any = dist

_NOBODY_YET = (
    "this process group was made with enable_reconfigure=True and has no members yet: call "
    "reconfigure first, with the handles of all ranks (torch.distributed._reconfigure)"
)
_OF_A_DRIVER = (
    "init_process_group(enable_reconfigure=True) is not possible in a job that hvdliterun "
    "--min-np or --host-discovery-script has started: hvdliterun chooses this job's members. "
    "hvd.elastic.run goes on with those that are left; see docs/guides/elastic.md."
)
_IN_A_JOB = (
    "init_process_group(enable_reconfigure=True): this process is in a job of hvdlite already, and "
    "the group makes jobs of its own. Call it in place of hvd.init()."
)


class BoundAnew(ProcessGroup):
    """Whose ranks become others, while it stays the same object."""

    _jobs_store: JobsStore | None = None

    def bind(self, members: ProcessSet, ranks: Sequence[int]) -> None:
        """The group's ranks are these of the job from now on. All of them call this."""
        self.unbind(members)
        rank, size = ranks.index(engine.rank()), len(ranks)
        self._place, self._ranks = (rank, size), list(ranks)
        job = basics.job_store()
        self._jobs_store = None if job is None else JobsStore(job, self._patience)
        store = _dist.PrefixStore(f"{members.name}/", self._jobs_store or _dist.HashStore())
        self._messages = GlooForMessages(store, rank, size, self._patience)
        self._group_store = store
        world = _dist.distributed_c10d._world
        if self in world.pg_map:  # where torch looks for ranks, and for the store of new groups
            world.pg_map[self] = (world.pg_map[self][0], store)
            world.pg_group_ranks[self] = {number: number for number in range(size)}

    def unbind(self, members: ProcessSet) -> None:
        """`members` are in the place of the present ones."""
        self._set = members
        self._messages.close()
        if self._jobs_store is not None:
            self._jobs_store.close()
            self._jobs_store = None


class Reconfigurable(BoundAnew):
    """`options`: torch's, of the default group."""

    supports_reconfigure = True

    def __init__(self, options: Any) -> None:
        if os.environ.get("HVDLITE_MEMBER"):
            raise RuntimeError(_OF_A_DRIVER)
        if basics.is_initialized():
            raise RuntimeError(_IN_A_JOB)
        self._member = Member()
        super().__init__(
            options.store, options.group_rank, options.timeout, "torch.reconfigurable",
            _Nobody(), range(options.group_size),
        )  # fmt: skip
        self.when_it_ends(self._end)

    def get_reconfigure_handle(self) -> str:
        return self._member.handle()

    def reconfigure(self, options: Any) -> Any:
        """Returns when the ranks have met."""
        there = self._member.checked(options.uuid, options.handles)
        self.unbind(_Nobody())
        _, size = self._member.join(options.uuid, there, options.timeout or self._patience)
        ranks = list(range(size))
        self.bind(add_process_set(ranks, name=f"torch.reconfigured {options.uuid}"), ranks)
        return DONE

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> Any:
        set_id_of(self._set)
        return super().send(tensors, dst, tag)

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> Any:
        set_id_of(self._set)
        return super().recv(tensors, src, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Any:
        set_id_of(self._set)
        return super().recv_anysource(tensors, tag)

    def abort(self) -> None:
        """Ends what is under way. A later reconfigure() mends the group."""
        self._member.abort(f"{self!r} was aborted by torch.distributed")
        self._messages.abort()

    def get_error(self) -> Any:
        kinds: Any = getattr(_c10d, "ErrorType")  # noqa: B009 - older versions have none
        return getattr(kinds, self._member.ending().name)

    def _end(self) -> None:
        self.unbind(_Nobody())
        self._member.leave(patiently=True)
        self._member.close()


class _Nobody(ProcessSet):
    """In the place of the members of a group that has none yet."""

    def __init__(self) -> None:
        super().__init__([])

    @property
    def process_set_id(self) -> int | None:  # type: ignore[override]
        raise RuntimeError(_NOBODY_YET)
