"""Pytest plugin: a real Prometheus that scrapes an exporter of the tests."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer

StartPrometheus = Callable[..., PrometheusServer]


@pytest.fixture(scope="session")
def prometheus_exporter() -> Iterator[Exporter]:
    """Give the exporter that `prometheus_server` scrapes; tests share it, each with own names."""
    with Exporter() as exporter:
        yield exporter


@pytest.fixture(scope="session")
def prometheus_server(
    prometheus_exporter: Exporter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    """Give a Prometheus for all tests, scraping `prometheus_exporter` every second."""
    with PrometheusServer(tmp_path_factory.mktemp("prometheus")) as server:
        yield server.start([prometheus_exporter.target])


@pytest.fixture
def start_prometheus(tmp_path: Path) -> Iterator[StartPrometheus]:
    """Give a function that starts a Prometheus of the test's own: (targets, rules, **options)."""
    with ExitStack() as stack:
        numbers = itertools.count(1)

        def start(
            scrape_targets: Sequence[str] = (), rules: str | None = None, **options: Any
        ) -> PrometheusServer:
            server = PrometheusServer(tmp_path / f"prometheus-{next(numbers)}", **options)
            return stack.enter_context(server).start(scrape_targets, rules)

        yield start


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """Give an exporter of the test's own."""
    with Exporter() as own:
        yield own
