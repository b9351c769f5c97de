"""The daemon as its users run it: a YAML file and a process."""

import json
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from benchmarks import fleet, processes
from benchmarks.bed import Bed, SeriesBed
from tests.worlds.controlplane.api import Json
from tests.worlds.process import ServerFailedError, ServerProcess
from tests.worlds.waiting import wait_until

_QUERIES = {
    fleet.METRIC: fleet.QUERY,
    fleet.REQUESTS: f"sum by (namespace, pod) ({fleet.REQUESTS})",
}


@dataclass(frozen=True)
class Settings:
    """What a configuration file says beyond its targets.

    `max_writes_per_second` of None leaves the daemon's default.  With `extended` each target has
    `idle`, `fallback` and `schedules`; without `record` no decision is recorded.
    `cpu_initialization` is cpuInitializationPeriod.
    """

    period: float
    max_writes_per_second: int | None = None
    extended: bool = False
    record: bool = True
    cpu_initialization: str = "5m"


@dataclass(frozen=True)
class SyncLine:
    """One line of the log that says a sync ended: when it began and ended, Unix seconds."""

    targets: int
    changed: int
    began: float
    ended: float


def write_config(
    bed: Bed, settings: Settings, numbers: Iterable[int], *, pods: bool = False
) -> Path:
    """Write the configuration of External targets, or of Pods and Resource ones."""
    spec_of = fleet.pods_spec if pods else fleet.queue_spec
    more = fleet.EXTENSIONS if settings.extended and not pods else {}
    return write_targets(bed, settings, _QUERIES, (spec_of(each) | more for each in numbers))


def write_targets(
    bed: Bed,
    settings: Settings,
    queries: Mapping[str, str],
    specs: Iterable[Json],
    resources: Json | None = None,
) -> Path:
    """Write the configuration of targets with those HorizontalPodAutoscalerSpecs.

    `resources` are queries in place of the built-in ones.
    """
    writes = settings.max_writes_per_second
    limit = {} if writes is None else {"maxWritesPerSecond": writes}
    clusters = {"kubernetes": {"kubeconfig": str(bed.kubeconfig), **limit}}
    return write_file(bed, settings, clusters, queries, specs, resources)


def state_directory(bed: SeriesBed) -> Path:
    """Return where the daemon keeps its histories and its record."""
    return bed.folder / "state"


def log_file(bed: SeriesBed) -> Path:
    """Return where its log is."""
    return bed.folder / "autoscaler.log"


def write_file(
    bed: SeriesBed,
    settings: Settings,
    clusters: Json,
    queries: Mapping[str, str],
    specs: Iterable[Json],
    resources: Json | None = None,
) -> Path:
    """Write the configuration of targets with those specs; `clusters` are keys beside them."""
    head: Json = {
        "prometheus": {"url": bed.prometheus.url},
        **clusters,
        "syncPeriod": f"{settings.period:g}s",
        "cpuInitializationPeriod": settings.cpu_initialization,
        "stateDirectory": str(state_directory(bed)),
        **({} if settings.record else {"record": None}),
        "listen": "127.0.0.1:0",
        "queries": queries,
        "resourceQueries": resources or {},
    }
    # JSON is YAML.
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in head.items()]
    targets = (json.dumps({"namespace": fleet.NAMESPACE, **spec}) for spec in specs)
    path = bed.folder / "autoscaler.yaml"
    path.write_text("".join([*lines, "targets:\n", *(f"- {target}\n" for target in targets)]))
    return path


class Daemon:
    """`autoscaler run -c FILE` as a process, with its log in a file."""

    def __init__(
        self, bed: SeriesBed, config: Path, targets: int, log_level: str, *arguments: str
    ) -> None:
        self.started = 0.0
        self._targets = targets
        self._log = log_file(bed)
        self._log.unlink(missing_ok=True)
        # Each measurement starts from nothing.
        shutil.rmtree(state_directory(bed), ignore_errors=True)
        self._read_to = 0
        self._syncs: list[SyncLine] = []
        argv = ["-m", "autoscaler", "run", "-c", str(config), "--log-level", log_level]
        argv += ["--log-format", "json", *arguments]
        self._process = ServerProcess([sys.executable, *argv], self._log)

    def __enter__(self) -> Self:
        self.started = time.time()
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    @property
    def pids(self) -> dict[str, int]:
        """The process, by the name under which its cost is reported."""
        return {"autoscaler": self._process.pid} if self._process.pid is not None else {}

    def status(self) -> dict[str, int]:
        """Return the numbers that the kernel knows of it (`processes.status`)."""
        return processes.status(self.pids["autoscaler"])

    def check(self) -> None:
        """Raise ServerFailedError if it has ended."""
        if not self._process.running:
            tail = self._log.read_text(errors="replace").splitlines()[-10:]
            raise ServerFailedError("\n".join(["the daemon ended; the end of its log:", *tail]))

    def wait_first_sync(self, timeout: float) -> float:
        """Wait until every target was decided; return the Unix time of the line that says so."""

        def look() -> float:
            self.check()
            synced = 0
            for line in self.syncs():
                synced += line.targets
                if synced >= self._targets:
                    return line.ended
            return 0.0

        return wait_until("every target is decided", look, timeout=timeout)

    def address(self) -> str:
        """Return where it serves its pages; empty before it does."""
        with self._log.open() as log:
            lines = (json.loads(line) for line in log if '"event": "listening"' in line)
            return next((line["address"] for line in lines), "")

    def syncs(self) -> list[SyncLine]:
        """Return the lines of syncs so far, in the order they ended; they are logged at debug."""
        self._read()
        return list(self._syncs)

    def _read(self) -> None:
        """Take in the lines that are complete and new."""
        with self._log.open("rb") as log:
            log.seek(self._read_to)
            new = log.read()
        complete = new[: new.rfind(b"\n") + 1]
        self._read_to += len(complete)
        for line in complete.splitlines():
            if b'"event": "synced"' in line:
                fields = json.loads(line)
                ended = datetime.fromisoformat(fields["time"]).timestamp()
                began = ended - float(fields["seconds"])
                sync = SyncLine(int(fields["targets"]), int(fields["changed"]), began, ended)
                self._syncs.append(sync)
