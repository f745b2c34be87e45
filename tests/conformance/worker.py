"""One rank of a conformance job: runs the checks it is told to and writes one line per event.

    hvdliterun -np N python worker.py PLAN      or an mpiexec

PLAN is a JSON file: rank_and_size (the launcher's variables), communicator, over_mpi, hosts (a host
id for each rank), environment, suite, checks, agreement (a store's address and secret), results (a
directory). Ranks agree through the runner's store, not through what is under test, whether a check
has passed everywhere. When one has not, the job ends, because its ranks may be out of step; the
runner then starts another one with the checks that are left.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import checks  # noqa: E402
from machine import within  # noqa: E402

from hvdlite.rendezvous.client import StoreClient  # noqa: E402

# How long a rank may take longer than another one that has already failed.
_PATIENCE = 2.0
_LOOK_EVERY = 0.25
FAILED, HUNG = 70, 71


class Watchdog:
    """Ends this process, with all stacks, when a check takes too long here, or when it has failed
    elsewhere. It counts the seconds in which it ran itself.
    """

    def __init__(self, directory: Path, rank: int) -> None:
        self._directory = directory
        self._stacks = open(directory / f"stacks.{rank}", "w")  # noqa: SIM115
        self._now = 0.0  # advanced by the thread alone
        self._deadline = float("inf")
        self._number = -1
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, number: int, seconds: float) -> None:
        self._number, self._deadline = number, self._now + within(seconds)
        # Also when a check keeps the GIL for ever.
        faulthandler.dump_traceback_later(within(seconds) + 5, exit=True, file=self._stacks)

    def end(self) -> None:
        self._deadline = float("inf")
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        last_well = 0.0
        while True:
            time.sleep(_LOOK_EVERY)  # poll
            self._now += _LOOK_EVERY
            number = self._number
            if not (self._directory / f"failed.{number}").exists():
                last_well = self._now
            over = self._now - last_well > within(_PATIENCE) or self._now > self._deadline
            if over and number == self._number and self._deadline < float("inf"):
                faulthandler.dump_traceback(self._stacks)
                self._stacks.flush()
                os._exit(HUNG)


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    directory = Path(plan["results"])
    rank, size = (int(os.environ[variable]) for variable in plan["rank_and_size"])
    os.environ.update(plan["environment"])
    if plan["hosts"]:
        os.environ["HVDLITE_HOST_ID"] = plan["hosts"][rank]
    address, secret = plan["agreement"]["address"], bytes.fromhex(plan["agreement"]["secret"])
    store = StoreClient(tuple(address), secret)
    by_name = {check.name: check for check in checks.everything(plan["suite"])}
    log = open(directory / f"log.{rank}", "a", buffering=1)  # noqa: SIM115
    watchdog = Watchdog(directory, rank)

    def say(**event: object) -> None:
        log.write(json.dumps(event) + "\n")

    import hvdlite as hvd

    watchdog.begin(0, 30)
    say(check="init", event="begin")
    if different := set(plan["listed"]) ^ by_name.keys():
        error = f"checks/listing.py and the modules of checks differ in {sorted(different)}"
        say(check="init", event="end", error=error, seconds=0)
        sys.exit(error)
    hvd.init()
    from checks.api import choose
    from checks.here import Here

    here = Here(rank, size, plan["communicator"], plan["over_mpi"], plan["environment"])
    choose(plan["suite"])
    say(check="init", event="end", error="", seconds=0)
    watchdog.end()
    for number, name in enumerate(plan["checks"], 1):
        check = by_name[name]
        say(check=name, event="begin")
        watchdog.begin(number, check.seconds)
        here.begin(name)
        start = time.monotonic()
        error = skipped = ""
        try:
            check.run(here, **check.arguments)
        except checks.Skipped as reason:
            skipped = str(reason)
        except BaseException:
            error = traceback.format_exc()
            (directory / f"failed.{number}").touch()
        say(
            check=name,
            event="end",
            error=error,
            skipped=skipped,
            seconds=round(time.monotonic() - start, 4),
        )
        watchdog.end()
        # Did all the others pass? One that hangs is ended by its own watchdog.
        store.set(f"conformance/{number}/{rank}", error.encode()[:1])
        try:
            verdicts = store.collect(
                f"conformance/{number}", size, timeout=within(check.seconds) + 10
            )
        except (TimeoutError, ConnectionError):
            os._exit(FAILED)
        if any(verdicts):
            os._exit(FAILED)
    watchdog.begin(len(plan["checks"]) + 1, 20)
    say(check="shutdown", event="begin")
    hvd.shutdown()
    say(check="shutdown", event="end", error="", seconds=0)


if __name__ == "__main__":
    main()
