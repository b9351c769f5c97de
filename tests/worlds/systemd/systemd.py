"""A real systemd as PID 1 of its own namespaces, with a file system that is thrown away.

It needs root and what every system with systemd has: `unshare`, `nsenter`, `pivot_root`.
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.worlds.process import ServerFailedError, ServerProcess
from tests.worlds.waiting import wait_until

_BOOT = Path(__file__).with_name("boot.sh")
_SYSTEMD = Path("/lib/systemd/systemd")
_NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--cgroup")
_COPIED = ("passwd", "group", "nsswitch.conf", "ld.so.cache")


class SystemdUnavailable(Exception):  # noqa: N818 - states what the environment lacks
    """This environment cannot boot a systemd; the message says why."""


class Systemd:
    """Boots with the `etc` that the caller fills; ``binds`` are read-only folders, from and to."""

    def __init__(self, folder: Path, binds: Mapping[Path, str]) -> None:
        if os.geteuid() != 0:
            raise SystemdUnavailable("only root can boot a systemd in namespaces")
        if not _SYSTEMD.is_file():
            raise SystemdUnavailable(f"there is no {_SYSTEMD}")
        self.root = folder / "root"
        self.etc = self.root / "etc"
        self.etc.mkdir(parents=True)
        for name in _COPIED:
            shutil.copy(Path("/etc") / name, self.etc / name)
        (self.etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        list_of_binds = folder / "binds"
        list_of_binds.write_text("".join(f"{source} {to}\n" for source, to in binds.items()))
        self._cgroup = _cgroup2() / f"systemd-{os.getpid()}"
        # It joins the cgroup before the namespaces are made, so that it is their root.
        join = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        boot = ["/bin/sh", str(_BOOT), str(self.root), str(list_of_binds)]
        unshare = ["unshare", *_NAMESPACES, "--fork", "--kill-child", *boot]
        self._process = ServerProcess(
            ["/bin/sh", "-c", join, str(self._cgroup), *unshare], folder / "boot.log"
        )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        flags = [namespace for namespace in _NAMESPACES if namespace != "--cgroup"]
        return subprocess.run(
            ["nsenter", "--target", self._pid1(), *flags, *argv],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def show(self, unit: str, field: str) -> str:
        return self.run("systemctl", "show", "--value", "-p", field, unit).stdout.strip()

    def __enter__(self) -> Self:
        try:
            self._cgroup.mkdir()
        except OSError as error:
            raise SystemdUnavailable(f"no cgroup can be made: {error}") from None
        try:
            self._process.start()
            self._process.wait_ready(self._is_up)
        except ServerFailedError as error:
            self._stop()
            raise SystemdUnavailable(str(error)) from None
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        # With PID 1 everything inside ends, and with the last process every mount.
        self._process.stop(grace=0)
        events = self._cgroup / "cgroup.events"
        wait_until("no process runs", lambda: "populated 0" in events.read_text())
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            Path(folder).rmdir()

    def _is_up(self) -> bool:
        try:
            return self.run("systemctl", "is-active", "basic.target").returncode == 0
        except (OSError, IndexError):
            return False

    def _pid1(self) -> str:
        unshare = self._process.pid
        children = Path(f"/proc/{unshare}/task/{unshare}/children").read_text()
        return children.split()[0]


def _cgroup2() -> Path:
    """Return the folder of our own cgroup."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    found = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
    if not found:
        raise SystemdUnavailable("there is no cgroup2")
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next(line for line in lines if line.startswith("0::")).removeprefix("0::/")
    return found[0] / own
