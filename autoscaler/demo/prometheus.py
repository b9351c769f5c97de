"""The demo's Prometheus: a real one, in a temporary folder, on a loopback port."""

import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from autoscaler.demo.children import Child, DemoError, free_port
from autoscaler.demo.story import METRIC

INSTALL = (
    "On Debian and Ubuntu it is installed with\n"
    "  sudo apt-get install prometheus\n"
    "elsewhere download it from https://prometheus.io/download/ and put `prometheus` on the "
    "PATH or its path into the environment variable PROMETHEUS_BINARY."
)


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """Host and port that are scraped, and the labels that all series from there get."""

    address: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    url: str
    process: Child


def find_binary() -> str:
    """Return the path of the program.  Raises DemoError that says how to install it."""
    named = os.environ.get("PROMETHEUS_BINARY")
    program = shutil.which(named or "prometheus")
    if program is not None:
        return program
    if named:
        raise DemoError(f"PROMETHEUS_BINARY={named} is not a program that can be run. {INSTALL}")
    raise DemoError(f"The demo needs Prometheus, and there is none on the PATH. {INSTALL}")


@contextmanager
def running(
    binary: str, folder: Path, targets: Sequence[ScrapeTarget], stop: threading.Event
) -> Iterator[Prometheus]:
    """Run Prometheus, scraping the targets each second, until the `with` statement ends.

    It is yielded once it has scraped the metric of each queue, or ``stop`` is set.  Raises
    DemoError if that takes too long.
    """
    folder.mkdir()
    config = folder / "prometheus.yml"
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    job = {"job_name": "demo-queue", "static_configs": [*map(_scraped, targets)]}
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
            process.wait("scrape the queue", lambda: _series(session, url) == len(targets), stop)
        yield Prometheus(url, process)


def _scraped(target: ScrapeTarget) -> dict[str, object]:
    labelled = {"labels": dict(target.labels)} if target.labels else {}
    return {"targets": [target.address], **labelled}


def _series(session: requests.Session, url: str) -> int:
    """Return how many series of the queues' metric it knows."""
    try:
        answer = session.get(f"{url}/api/v1/query", params={"query": METRIC}, timeout=2)
        return len(answer.json()["data"]["result"]) if answer.ok else 0
    except requests.RequestException:
        return 0
