"""The page of metrics: its formats, its cost, and that it keeps no sync waiting."""

import threading
import time

import pytest

from autoscaler.core.spec import LabelSelector
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metrics import Metrics
from tests.core.builders import average, external
from tests.telemetry.results import (
    FORMATS,
    many,
    metrics_of,
    result_of,
    series_of,
    target_of,
)
from tests.worlds.waiting import wait_until

ODD = 'a "quoted" \\ back\\nslash\nnew line, {braces} = ütf-8 \U0001f600 #'


@pytest.mark.parametrize("accept", FORMATS)
def test_label_values_are_escaped(accept: str) -> None:
    odd = external(average("30"), ODD, LabelSelector((("queue", 'or"ders\\'),)))
    metrics = metrics_of(result_of(target_of("web", odd)))
    (labels,) = series_of(metrics, "autoscaler_target_proposed_replicas", accept)
    odd_name = " ".join(ODD.splitlines())
    assert dict(labels)["metric_name"] == f'{odd_name}{{queue="or"ders\\"}}'


def test_the_format_of_the_page_is_the_requested_one() -> None:
    metrics = Metrics(Health())
    prometheus = (
        "application/openmetrics-text;version=1.0.0;q=0.5,"
        "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    )
    assert metrics.page(prometheus)[0].startswith("application/openmetrics-text; version=1.0.0")
    for accept in ("", "*/*", "text/html", "application/openmetrics-text; version=x.y", ";;,=,"):
        content_type, parts = metrics.page(accept)
        assert content_type.startswith("text/plain; version=0.0.4")
        assert b"# EOF" not in b"".join(parts)


@pytest.mark.parametrize("accept", FORMATS)
def test_the_page_of_10000_targets_costs_under_a_second(accept: str) -> None:
    """Some 190,000 samples, best of three, by the CPU; a result takes microseconds to take in."""
    results = many(10_000)
    metrics = metrics_of(*results)
    took: list[tuple[float, float]] = []
    for _ in range(3):
        begun = time.thread_time()
        lines = sum(part.count(b"\n") for part in metrics.page(accept)[1])
        made = time.thread_time()
        for result in results:
            metrics.report(result)
        took.append((made - begun, time.thread_time() - made))
        assert lines > 180_000
    pages, reports = zip(*took, strict=True)
    assert min(pages) < 1.0
    assert min(reports) < 20e-6 * len(results)


def test_pages_are_complete_while_syncs_run() -> None:
    results = many(200)
    metrics = metrics_of(*results)
    stop = threading.Event()
    turns = [0] * 4

    def sync(number: int) -> None:
        while not stop.is_set():
            for result in results[number::4]:
                metrics.report(result)
            turns[number] += 1

    threads = [threading.Thread(target=sync, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for accept in FORMATS * 3:
            shown = series_of(metrics, "autoscaler_target_current_replicas", accept, without=())
            assert len(shown) == 200
        before = tuple(turns)
        wait_until("all go on", lambda: all(map(int.__gt__, turns, before)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_report_does_not_wait_for_a_page() -> None:
    making, release = threading.Event(), threading.Event()
    health = Health()

    class Slow(Health):
        """Holds up whoever asks how it is."""

        def stalled(self) -> str | None:
            making.set()
            release.wait(20)
            return health.stalled()

    metrics = Metrics(Slow())
    target = target_of()
    metrics.states.set_targets([target])
    page = threading.Thread(target=lambda: list(metrics.page()[1]))
    page.start()
    try:
        assert making.wait(20)
        metrics.report(result_of(target))
    finally:
        release.set()
        page.join()
    assert series_of(metrics, "autoscaler_target_current_replicas") == {(): 3}
