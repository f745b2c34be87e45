"""Hosts that ssh leads to: network namespaces, each with a real sshd of its own and keys made for
the test."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from machine import within
from network import Network
from waiting import wait_until

_SSHD = "/usr/sbin/sshd"


def why_not() -> str | None:
    """Why there can be no sshd here; None if there can."""
    missing = [name for name in ("ssh", "ssh-keygen") if shutil.which(name) is None]
    if missing or not os.path.exists(_SSHD):
        return "needs sshd and ssh (Debian: apt-get install openssh-server openssh-client)"
    return None


class SshHosts:
    """Hosts a, b, ... of a Network; use as a context manager. `config` is what the client needs:
    `ssh -F config a`."""

    def __init__(
        self, network: Network, names: Sequence[str], directory: Path, mark: str, forced: str = ""
    ) -> None:
        self._network = network
        self._names = names
        self._directory = directory
        self._mark = mark
        self._forced = forced  # what sshd runs instead of the command that was asked for
        self.config = directory / "ssh_config"
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> SshHosts:
        folder = self._directory
        for key in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True
            )
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        host_key = " ".join((folder / "host.pub").read_text().split()[:2])
        lines = [
            f"{self._network.address(number)} {host_key}" for number in range(len(self._names))
        ]
        (folder / "known").write_text("\n".join(lines) + "\n")
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\nStrictModes "
            "no\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin yes\nAcceptEnv *\nPidFile "
            "none\nMaxStartups 100\n" + (f"ForceCommand {self._forced}\n" if self._forced else "")
        )
        self.config.write_text(
            "".join(
                f"Host {name}\n  HostName {self._network.address(number)}\n"
                for number, name in enumerate(self._names)
            )
            + f"Host *\n  User root\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {folder}/known\n  GlobalKnownHostsFile /dev/null\n  SetEnv "
            f"{self._mark}\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists
        try:
            for number, name in enumerate(self._names):
                self._start(number, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, number: int, name: str) -> None:
        address = self._network.address(number)
        with open(self._directory / f"sshd.{name}.log", "wb") as log:
            self._servers[name] = subprocess.Popen(
                [
                    *self._network.prefix(number),
                    _SSHD,
                    "-D",
                    "-e",
                    "-f",
                    self._directory / "sshd_config",
                ]
                + ["-o", f"ListenAddress={address}"],
                stdin=subprocess.DEVNULL,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root")},
                start_new_session=True,
            )
        written = self._directory / f"sshd.{name}.log"
        wait_until(
            lambda: (
                b"Server listening" in written.read_bytes()
                or self._servers[name].poll() is not None
            ),
            said=written.read_bytes,
        )
        assert self._servers[name].poll() is None, written.read_bytes()

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            # A session whose connection is dead outlives the server for minutes.
            children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
            sessions: list[str] = []
            with contextlib.suppress(OSError):
                sessions = children.read_text().split()
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(within(20))
            for session in sessions:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(session), signal.SIGTERM)
        self._servers.clear()
