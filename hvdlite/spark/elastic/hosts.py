"""The tasks that have come, as the hosts of a job. Pure: times are arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hvdlite.launch.elastic.discovery import Answer
from hvdlite.launch.hosts import Host
from hvdlite.spark.elastic.agent_task import TaskHello


class TaskHosts:
    """`wanted`: how many tasks the job needs to begin. `asked`: how many Spark is asked for.
    `patience`: for the first to come, in seconds from `began` on."""

    def __init__(self, wanted: int, asked: int, began: float, patience: float) -> None:
        self._wanted, self._asked = wanted, asked
        self._began, self._patience = began, patience
        self._names: dict[str, str] = {}  # by the hosts' identities
        self._failures = 0
        self._enough = False  # the job could begin
        self._hosts: tuple[Host, ...] = ()
        self._told = ""

    def name(self, hello: TaskHello) -> str:
        """Returns what the task's host is called. Two containers may have the same name."""
        if hello.host not in self._names:
            taken = set(self._names.values())
            numbered = (f"{hello.name}-{number}" for number in range(2, len(taken) + 3))
            free = (name for name in (hello.name, *numbered) if name not in taken)
            self._names[hello.host] = next(free)
        return self._names[hello.host]

    def count(self, tasks: Sequence[TaskHello], failures: Sequence[str], now: float) -> Answer:
        """`failures`: of tasks, since the last time, in a sentence each."""
        self._failures += len(failures)
        self._enough = self._enough or len(tasks) >= self._wanted
        if not self._enough:
            if not tasks and failures and self._failures >= self._asked:
                return Answer(trouble=f"no task of Spark can take part: {failures[-1]}", fatal=True)
            if now - self._began > self._patience:
                return Answer(trouble=self._too_late(len(tasks)), fatal=True)
        slots = Counter(self.name(task) for task in tasks)
        hosts = tuple(Host(name, slots[name]) for name in self._names.values() if slots[name])
        changed, self._hosts = hosts != self._hosts, hosts
        return Answer(hosts if changed else None, self._news(failures))

    def _news(self, failures: Sequence[str]) -> str:
        """Each failure is told once in a row."""
        said = [each for number, each in enumerate(failures) if each not in failures[:number]]
        text = "\n".join(each for each in said if each != self._told)
        self._told = said[-1] if said else self._told
        return text

    def _too_late(self, there: int) -> str:
        return (
            f"only {there} of {self._wanted} tasks have started within {self._patience:g} s: other "
            "jobs have the slots of Spark, or there are fewer. start_timeout, or "
            "HVDLITE_SPARK_START_TIMEOUT, sets how long to wait."
        )
