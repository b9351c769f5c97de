"""The child processes of the demo: Prometheus and the daemon, the ports, and their error."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import requests
import yaml

from autoscaler import clock
from autoscaler.demo.story import (
    CPU,
    DEPLOYMENT,
    LOAD,
    METRIC,
    QUEUE,
    Region,
    Service,
    Story,
    external,
)
from autoscaler.persistence.temporary_folders import hold_folder

_GRACE = 10.0
_STARTS_WITHIN, _POLL = 30.0, 0.1
_SHOWN_LINES = 10


class DemoError(Exception):
    """The demo cannot continue; the message is a sentence for the user."""


class Child:
    """A process that runs inside a `with` statement, with its output in a log file.

    It stays in the demo's process group, so that a Ctrl-C in the terminal reaches it too.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._argv = list(argv)

    def __enter__(self) -> Self:
        # The child uses its part of the demo's folder even if the demo is killed.
        with self.log.open("wb") as output, hold_folder(self.log.parent.parent) as descriptor:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                pass_fds=(descriptor,),
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """Raise DemoError with the end of the log if the process has ended."""
        code = self._process.poll()
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            raise self.failure(f"{self.name} {how}")

    def wait(self, what: str, probe: Callable[[], bool], stop: threading.Event) -> None:
        """Wait until it did what it is to do, or ``stop`` is set.  Raises DemoError after 30 s."""
        deadline = clock.monotonic() + _STARTS_WITHIN
        while not stop.is_set() and not probe():
            self.check()
            if clock.monotonic() > deadline:
                raise self.failure(f"{self.name} did not {what} within {_STARTS_WITHIN:.0f} s")
            stop.wait(_POLL)

    def failure(self, sentence: str, whose: str = "its") -> DemoError:
        """Return the error with the last lines of the log."""
        lines = self.log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
        tail = "\n".join(f"  {line}" for line in lines) or "  (it is empty)"
        return DemoError(f"{sentence}. The last lines of {whose} log:\n{tail}")


class PeriodicTask:
    """Calls `_tick` at a fixed interval on a thread, inside a `with` statement."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _tick(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stop.is_set():
            self._tick()
            self._stop.wait(self._seconds)


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment() -> dict[str, str]:
    """Return our environment, with loopback excluded from any proxy."""
    env = dict(os.environ)
    for name in ("NO_PROXY", "no_proxy"):
        env[name] = ",".join(part for part in (env.get(name), "127.0.0.1", "localhost") if part)
    return env


# -- Prometheus ------------------------------------------------------------------------------------


_INSTALL = (
    "On Debian and Ubuntu it is installed with\n"
    "  sudo apt-get install prometheus\n"
    "elsewhere download it from https://prometheus.io/download/ and put `prometheus` on the "
    "PATH or its path into the environment variable PROMETHEUS_BINARY."
)


class Prometheus(NamedTuple):
    """A run_prometheus Prometheus."""

    url: str
    process: Child


def find_binary() -> str:
    """Return the path of the program.  Raises DemoError that says how to install it."""
    named = os.environ.get("PROMETHEUS_BINARY")
    program = shutil.which(named or "prometheus")
    if program is not None:
        return program
    if named:
        raise DemoError(f"PROMETHEUS_BINARY={named} is not a program that can be run. {_INSTALL}")
    raise DemoError(f"The demo needs Prometheus, which is not on the PATH. {_INSTALL}")


@contextmanager
def run_prometheus(
    binary: str,
    folder: Path,
    targets: Sequence[tuple[str, Mapping[str, str]]],
    stop: threading.Event,
) -> Iterator[Prometheus]:
    """Run Prometheus, scraping the targets each second, until the `with` statement ends.

    A target is host and port, and the labels that all series from there get.  It is yielded once
    the metric of each queue is scraped, or ``stop`` is set.  Raises DemoError if that takes too
    long.
    """
    folder.mkdir()
    config = folder / "prometheus.yml"
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    job = {
        "job_name": "demo-queue",
        "static_configs": [
            {"targets": [address], "labels": dict(labels)} for address, labels in targets
        ],
        # The exporter's library writes no colon in OpenMetrics.
        "metric_relabel_configs": [
            {
                "source_labels": ["__name__"],
                "regex": "vllm_(.*)",
                "target_label": "__name__",
                "replacement": "vllm:$1",
            }
        ],
    }
    config.write_text(yaml.safe_dump({"global": timing, "scrape_configs": [job]}))
    address = f"127.0.0.1:{free_port()}"
    argv = [
        binary,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with Child("Prometheus", argv, folder / "prometheus.log") as process:
        url = f"http://{address}"
        with requests.Session() as session:
            session.trust_env = False
            process.wait("scrape the queue", lambda: _scraped(session, url) == len(targets), stop)
        yield Prometheus(url, process)


def _scraped(session: requests.Session, url: str) -> int:
    """Return how many series of the queues' metric it knows."""
    try:
        answer = session.get(f"{url}/api/v1/query", params={"query": METRIC}, timeout=2)
        return len(answer.json()["data"]["result"]) if answer.ok else 0
    except requests.RequestException:
        return 0


# -- the daemon ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServedCluster:
    """How the daemon reaches a cluster, and what it scales there next to the queue's workers.

    A kubeconfig of None means the environment's.
    """

    region: Region
    kubeconfig: Path | None
    context: str
    namespace: str
    services: Sequence[Service]

    @property
    def workers(self) -> str:
        """The key of the queue's workers."""
        parts = (self.region.name, self.namespace, "Deployment", DEPLOYMENT)
        return "/".join(part for part in parts if part)


class LogLine(NamedTuple):
    """The log line of one sync."""

    message: str
    changed: bool
    """Whether the scale or the state of the target changed."""


def daemon_config(
    story: Story, prometheus_url: str, clusters: Sequence[ServedCluster]
) -> dict[str, object]:
    """Return the daemon's configuration, but for what is of a folder and of an address."""
    connections = [_connection(cluster) for cluster in clusters]
    several = len(clusters) > 1
    return {
        "prometheus": {"url": prometheus_url},
        **({"clusters": connections} if several else {"kubernetes": connections[0]}),
        "syncPeriod": f"{story.sync_period}s",
        # Pods that have just begun count at once, since all of it lasts a minute.
        "cpuInitializationPeriod": "1s",
        "initialReadinessDelay": "1s",
        "queries": {METRIC: f'{METRIC}{{queue="{QUEUE}"}}', LOAD: LOAD},
        "resourceQueries": {"cpu": {"query": CPU, "window": "1s"}},
        "targets": [target for cluster in clusters for target in _targets(story, cluster)],
    }


def _connection(cluster: ServedCluster) -> dict[str, object]:
    region = cluster.region
    made: dict[str, object] = {"name": region.name} if region.name else {}
    if cluster.kubeconfig is not None:
        made["kubeconfig"] = str(cluster.kubeconfig)
    series = {"seriesLabels": region.labels} if region.name else {}
    return {**made, "context": cluster.context, **series}


def _targets(story: Story, cluster: ServedCluster) -> Iterator[dict[str, object]]:
    """Yield the targets of a cluster, the queue's workers first."""
    region = cluster.region
    slowly = {"scaleDown": {"stabilizationWindowSeconds": story.scale_down_window}}
    each, most = story.messages_per_worker, story.max_workers
    workers = external(METRIC, region.labels, each, maximum=most, behavior=slowly)
    place = {"cluster": region.name} if region.name else {}
    for name, scaling in (
        (DEPLOYMENT, workers),
        *((service.name, service.target) for service in cluster.services),
    ):
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        yield {**place, "namespace": cluster.namespace, "scaleTargetRef": ref, **scaling}


class DemoDaemon:
    """The run_daemon daemon: its configuration, the address of its pages, and its log.

    ``targets`` are the keys of the queues' workers by region.
    """

    def __init__(self, process: Child, file: Path, url: str, targets: Mapping[str, str]) -> None:
        self.process = process
        self.file = file
        self.url = url
        self.targets = targets
        self._regions = {key: region for region, key in targets.items()}
        self._read = 0

    def news(self) -> Mapping[str, Sequence[LogLine]]:
        """Return the syncs of each queue's workers that were logged since the last call."""
        with self.process.log.open("rb") as log:
            log.seek(self._read)
            syncs: dict[str, list[LogLine]] = {region: [] for region in self.targets}
            for line in log:
                if not line.endswith(b"\n"):
                    break  # still being written
                self._read += len(line)
                entry = _sync(line)
                if entry.get("target") in self._regions:
                    told, changed = str(entry.get("message", "")), entry.get("level") != "debug"
                    syncs[self._regions[entry["target"]]].append(LogLine(told, changed=changed))
            return syncs


@contextmanager
def run_daemon(
    document: Mapping[str, object],
    clusters: Sequence[ServedCluster],
    folder: Path,
    stop: threading.Event,
) -> Iterator[DemoDaemon]:
    """Run `autoscaler run` on a configuration of the clusters until the `with` statement ends.

    It is yielded once its pages are there, or ``stop`` is set.  Raises DemoError if that takes too
    long.
    """
    folder.mkdir()
    port = free_port()
    file, address = folder / "autoscaler.yaml", f"127.0.0.1:{port}"
    own = {"listen": address, "stateDirectory": str(folder / "state")}
    file.write_text(yaml.safe_dump({**own, **document}, sort_keys=False))
    argv = [sys.executable, "-m", "autoscaler", "run", "-c", str(file)]
    argv += ["--log-level", "debug", "--log-format", "json"]
    with Child("The autoscaler", argv, folder / "autoscaler.log") as process:
        process.wait("listen", lambda: _listens(port), stop)
        workers = {cluster.region.name: cluster.workers for cluster in clusters}
        yield DemoDaemon(process, file, f"http://{address}/", workers)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _sync(line: bytes) -> dict[str, Any]:
    """Parse a log line; None if it is not about a sync."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) and entry.get("event") == "sync" else {}
