"""One job on this host from its secret to its last line: the steps in their order."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hvdlite.launch import output, plan, secret, watch
from hvdlite.launch.spawn import local
from hvdlite.rendezvous.server import StoreServer


@dataclass(frozen=True)
class Options:
    output_directory: str | None = None
    timestamps: bool = False
    verbose: bool = False


class _Console:
    """The launcher's stdout and stderr."""

    def __init__(self, timestamps: bool) -> None:
        self.stdout = output.Sink(output.Writer(1), timestamps)
        self.stderr = output.Sink(output.Writer(2), timestamps)

    def flush(self) -> None:
        """Wait as long as the reader takes, as every program does; Ctrl-C ends the wait."""
        try:
            for sink in (self.stdout, self.stderr):
                while not sink.wait_flushed(1.0):
                    pass
        except KeyboardInterrupt:
            pass


def run(slots: Sequence[plan.Slot], command: Sequence[str], knobs: Mapping[str, str], options: Options) -> int:
    """Run the job to its end; returns the exit status. Main thread only."""
    logging.basicConfig(format="hvdliterun: %(message)s")  # what the store says of strangers
    console = _Console(options.timestamps)
    verdict = watch.Verdict({slot.rank: slot.host for slot in slots})

    def log(text: str) -> None:
        if options.verbose:
            console.stderr.say(f"hvdliterun: {text}")

    try:
        text = os.environ.get(secret.TEXT_VARIABLE)
        key = secret.parse(text) if text else secret.create()
        # All ranks are on this host, so nothing listens anywhere but on the loopback.
        with StoreServer(key, host="127.0.0.1") as server:
            log(f"the store is at {server.address[0]}:{server.address[1]}")
            descriptor = None if text else secret.store(key)
            proof = {secret.TEXT_VARIABLE: text or ""} if text else {secret.DESCRIPTOR_VARIABLE: str(descriptor)}
            shared = plan.shared_environment(os.environ, server.address, proof, knobs)
            several = len({slot.host for slot in slots}) > 1
            own = {slot.rank: plan.rank_environment(slot, several) for slot in slots}
            copies = _open_copies(slots, options)
            ranks = local.start(slots, command, shared, own, descriptor)
            try:
                watch.watch(ranks, _streams(ranks, console, copies), verdict, log)
            finally:
                ranks.close()
                if descriptor is not None:
                    os.close(descriptor)
        status, sentence = verdict.status(), verdict.sentence(command)
    except (OSError, ValueError) as error:
        status, sentence = 1, f"hvdliterun: {error}"
    except KeyboardInterrupt:  # before or after the watch, which has its own handlers
        status, sentence = 128 + signal.SIGINT, "hvdliterun: ended by SIGINT; all ranks were ended."
    if sentence:
        console.stderr.say(sentence)
    console.flush()
    return status


def _open_copies(slots: Sequence[plan.Slot], options: Options) -> dict[tuple[int, str], int]:
    """The files for --output-filename by rank and stream; opened first, so that a bad path starts nothing."""
    directory = options.output_directory
    if not directory:
        return {}
    size = len(slots)
    names = [(slot.rank, name) for slot in slots for name in ("stdout", "stderr")]
    return {(rank, name): output.open_copy(directory, rank, size, name) for rank, name in names}


def _streams(ranks: local.Ranks, console: _Console, copies: Mapping[tuple[int, str], int]) -> dict[int, output.Stream]:
    streams: dict[int, output.Stream] = {}
    for rank, pipes in ranks.pipes.items():
        streams[pipes.stdout] = output.Stream(rank, "stdout", console.stdout, copies.get((rank, "stdout")))
        streams[pipes.stderr] = output.Stream(rank, "stderr", console.stderr, copies.get((rank, "stderr")))
    return streams
