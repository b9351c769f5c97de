"""The demo's Prometheus: a real one, in a temporary folder, on a loopback port."""

import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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


class Prometheus(NamedTuple):
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
            process.wait("scrape the queue", lambda: _series(session, url) == len(targets), stop)
        yield Prometheus(url, process)


def _series(session: requests.Session, url: str) -> int:
    """Return how many series of the queues' metric it knows."""
    try:
        answer = session.get(f"{url}/api/v1/query", params={"query": METRIC}, timeout=2)
        return len(answer.json()["data"]["result"]) if answer.ok else 0
    except requests.RequestException:
        return 0
