"""No target goes down on what a gap in the samples makes of a constant load.

All outages are played at the same time, each behind targets of its own.
"""

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.demo.apiserver import StandInCluster
from tests.worlds.outages.bed import Counts, Scaler, Side, deploy, pods_of
from tests.worlds.outages.cases import REPLICAS, Case, Metric
from tests.worlds.outages.loads import LoadExporter
from tests.worlds.waiting import NotInTimeError, wait_until

SEED = 5
STOPPED = 3.0
"""How long Prometheus is stopped, in seconds; it scrapes 5 s later."""
SHORT, MIDDLE, LONG = 1.6, 6.0, 10.0
"""How long exporters are down: against their range of 4 s what 30 s, 3 and 6 minutes, or
nearly, are against two minutes."""
RANGE, WINDOW, SHORT_WINDOW = 4, 5, 2
LOWERED = 20.5
"""When all ranges lie behind the gap, and the load is lowered, in seconds from its begin."""
_PAST_SECONDS = 12.0
_UP_SECONDS = 30.0
_DOWN_SECONDS = 60.0

SUFFIXES = ("short", "middle", "long")
"""How long the exporters of a job are down."""

RISING_AWAY = Case("away", Metric.QUEUE, RANGE, 6, maximum=30)
RISING_EXPORTER = Case("all-long", Metric.QUEUE, RANGE, 6, maximum=30)

AWAY = [
    *(
        Case("away", metric, seconds, window)
        for metric in (Metric.CPU, Metric.QUEUE)
        # The gap is about 0.9, 2.1 and 2.8 of the range.
        for seconds, window in ((10, SHORT_WINDOW), (RANGE, WINDOW), (3, WINDOW))
    ),
    Case("away", Metric.GAUGE, 0, WINDOW),
    Case("away", Metric.GAUGE, 0, 0),
]
"""Prometheus is stopped."""
ALL = [
    Case(f"all-{suffix}", metric, RANGE, WINDOW)
    for suffix in SUFFIXES
    for metric in (Metric.CPU, Metric.QUEUE, Metric.GAUGE)
]
"""The only exporter is down."""
HALF = [
    Case(f"half-{suffix}", metric, RANGE, WINDOW, exporters=2)
    for suffix in SUFFIXES
    for metric in (Metric.CPU, Metric.QUEUE_HELD, Metric.GAUGE_HELD)
]
"""One of two exporters is down."""
ROLLING = [
    Case("rolling", Metric.CPU, RANGE, WINDOW, exporters=3),
    Case("rolling", Metric.QUEUE_HELD, RANGE, WINDOW, exporters=3),
]
"""One of three exporters is down, each in its turn."""
LOST = [Case("lost", Metric.CPU, RANGE, WINDOW, exporters=2)]
"""Prometheus does not scrape one of two exporters for a while."""
EXPORTERS = [*ALL, *HALF, *ROLLING, *LOST]

SHORT_WINDOWS = [
    Case("all-middle", Metric.CPU_UP, RANGE, SHORT_WINDOW),
    Case("all-middle", Metric.QUEUE_HELD, RANGE, SHORT_WINDOW),
    Case("all-middle", Metric.GAUGE_HELD, RANGE, SHORT_WINDOW),
    Case("half-middle", Metric.CPU_UP, RANGE, SHORT_WINDOW, exporters=2),
    Case("half-long", Metric.CPU_UP, RANGE, SHORT_WINDOW, exporters=2),
    Case("half-long", Metric.QUEUE_HELD, RANGE, SHORT_WINDOW, exporters=2),
    Case("half-long", Metric.GAUGE_HELD, RANGE, SHORT_WINDOW, exporters=2),
    Case("rolling", Metric.CPU_UP, RANGE, SHORT_WINDOW, exporters=3),
    Case("rolling", Metric.QUEUE_HELD, RANGE, SHORT_WINDOW, exporters=3),
]
"""A reading sinks before it fails: windows shorter than the range need queries that know."""
KILLED_EXPORTERS = [
    case for case in (*ALL, *HALF) if case.metric is not Metric.GAUGE and "short" not in case.job
]


@dataclass(frozen=True)
class Record:
    """Every count, from the begin of the outages on, and when the load was lowered."""

    counts: Counts
    begin: float
    lowered: float
    stuck: Sequence[str] = ()
    """What did not go down in time after that."""

    def seconds_and_counts(self, namespace: str, case: Case) -> list[tuple[float, int]]:
        """Return the counts of a target, each with its seconds since the begin."""
        seen = self.counts.changes(namespace, case.name)
        return [(round(at - self.begin, 1), count) for at, count in seen]

    def before(self, namespace: str, case: Case) -> list[int]:
        """Return the counts before the load was lowered."""
        seen = self.counts.changes(namespace, case.name)
        return [count for at, count in seen if at < self.lowered]

    def last(self, namespace: str, case: Case) -> int:
        """Return the last count."""
        return self.counts.changes(namespace, case.name)[-1][1]


Act = tuple[float, Callable[[], object]]


@contextmanager
def played(folder: Path) -> Iterator[Record]:
    """Play everything once."""
    away = Side(
        folder / "away", {"away": [*AWAY, RISING_AWAY], "away-killed": [*AWAY, RISING_AWAY]}
    )
    steady = [*EXPORTERS, *SHORT_WINDOWS, RISING_EXPORTER]
    exporters = Side(
        folder / "exporters", {"exporters": steady, "exporters-killed": KILLED_EXPORTERS}
    )
    with ExitStack() as stack:
        cluster = stack.enter_context(StandInCluster(kept_changes=100_000))
        scalers = _start(stack, folder, cluster, (away, exporters))
        acts = [
            *_prometheus_away(away),
            *_exporters_away(exporters),
            *_rolling(exporters),
            *_lost(exporters),
            # Once it has noticed: it cannot know of an outage that begins and ends without it.
            *_kills(scalers["away-killed"], (2.0, STOPPED), (STOPPED + 0.5, 15.0)),
            *_kills(scalers["exporters-killed"], (RANGE, MIDDLE), (LONG + 0.5, 18.0)),
        ]
        counts = stack.enter_context(Counts(cluster))
        begin = clock.monotonic()
        _perform(begin, acts)
        _pause(begin + LOWERED)
        _wait_up(counts)
        lowered = clock.monotonic()
        for side in (away, exporters):
            for exporter in side.all_exporters():
                exporter.multiply(0.2)
        record = Record(counts, begin, lowered)
        yield replace(record, stuck=_wait_down(record, scalers))


def _wait_up(counts: Counts) -> None:
    """Give those whose load rises the time that a busy machine needs to take them up."""
    rising = [("away", RISING_AWAY), ("away-killed", RISING_AWAY), ("exporters", RISING_EXPORTER)]

    def risen() -> bool:
        return all(
            counts.changes(namespace, case.name)[-1][1] > REPLICAS for namespace, case in rising
        )

    with suppress(NotInTimeError):
        wait_until("rising loads followed", risen, timeout=_UP_SECONDS)


def _wait_down(record: Record, scalers: Mapping[str, Scaler]) -> list[str]:
    """Wait until all went down, and name those that did not in time."""

    def up() -> list[str]:
        return [
            f"{namespace}/{case.name}"
            for namespace, scaler in scalers.items()
            for case in scaler.cases
            if record.last(namespace, case) >= REPLICAS
        ]

    with suppress(NotInTimeError):
        wait_until("all went down", lambda: not up(), timeout=_DOWN_SECONDS)
    return up()


def _start(
    stack: ExitStack, folder: Path, cluster: StandInCluster, sides: Sequence[Side]
) -> dict[str, Scaler]:
    """Start everything, and wait until Prometheus scrapes and all is decided on that."""
    scalers = {}
    for side in sides:
        for namespace, cases in side.cases.items():
            deploy(cluster, namespace, cases)
            for case in cases:
                _wait_pods(cluster, namespace, case)
            side.load(cluster, namespace)
    for side in sides:
        side.start(stack, _PAST_SECONDS)
        for namespace in side.cases:
            scalers[namespace] = Scaler(folder, cluster, side, namespace, stack)
            scalers[namespace].start()
    for scaler in scalers.values():
        scaler.wait_synced()
    return scalers


def _wait_pods(cluster: StandInCluster, namespace: str, case: Case) -> None:
    wait_until(
        f"{case.name} has its pods",
        lambda: len(pods_of(cluster, namespace, case.name)) == REPLICAS,
        interval=0.02,
    )


def _prometheus_away(side: Side) -> list[Act]:
    exporter = side.exporters["away"][0]
    return [
        (0.0, side.prometheus.stop),
        (STOPPED, lambda: side.prometheus.start(side.scraped())),
        (STOPPED + 1.0, lambda: exporter.multiply(3.0, RISING_AWAY.name)),
    ]


def _exporters_away(side: Side) -> list[Act]:
    """Take away the only exporter, or one of two."""
    acts: list[Act] = []
    for suffix, seconds in zip(SUFFIXES, (SHORT, MIDDLE, LONG), strict=True):
        for whole in ("all", "half"):
            item = side.exporters[f"{whole}-{suffix}"][0]
            acts += [(0.0, item.stop), (seconds, item.start)]
    longest = side.exporters["all-long"][0]
    acts.append((LONG + 1.0, lambda: longest.multiply(3.0, RISING_EXPORTER.name)))
    return acts


def _rolling(side: Side) -> list[Act]:
    """Restart one exporter after the other."""
    acts: list[Act] = []
    for number, exporter in enumerate(side.exporters["rolling"]):
        acts += [(2.0 * number, exporter.stop), (2.0 * number + 1.5, exporter.start)]
    return acts


def _lost(side: Side) -> list[Act]:
    """Let Prometheus forget one of two exporters; it finds it again some 5 s later."""
    lost: LoadExporter = side.exporters["lost"][0]
    return [
        (0.0, lambda: side.prometheus.reload(side.scraped(lost))),
        (1.0, lambda: side.prometheus.reload(side.scraped())),
    ]


def _kills(scaler: Scaler, *spans: tuple[float, float]) -> list[Act]:
    moments = random.Random(f"{SEED} {scaler.namespace}")  # noqa: S311 - a test's
    return [(moments.uniform(*span), scaler.kill) for span in spans]


def _perform(begin: float, acts: Sequence[Act]) -> None:
    for after, act in sorted(acts, key=lambda item: item[0]):
        _pause(begin + after)
        act()


def _pause(until: float) -> None:
    threading.Event().wait(max(0.0, until - clock.monotonic()))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """Play all outages once for all tests."""
    with played(tmp_path_factory.mktemp("outages")) as played_once:
        yield played_once


CASES = {
    "stopped": ("away", AWAY),
    "stopped-and-killed": ("away-killed", AWAY),
    "exporters-away": ("exporters", EXPORTERS),
    "exporters-away-and-killed": ("exporters-killed", KILLED_EXPORTERS),
    "short-windows": (
        "exporters",
        SHORT_WINDOWS,
    ),
}


@pytest.mark.parametrize(
    ("namespace", "case"),
    [
        pytest.param(namespace, case, id=f"{what}: {case.name}")
        for what, (namespace, cases) in CASES.items()
        for case in cases
    ],
)
def test_a_range_that_fills_takes_nothing_down(record: Record, namespace: str, case: Case) -> None:
    assert min(record.before(namespace, case)) == REPLICAS, record.seconds_and_counts(
        namespace, case
    )


@pytest.mark.parametrize(
    ("namespace", "case"),
    [("away", RISING_AWAY), ("away-killed", RISING_AWAY), ("exporters", RISING_EXPORTER)],
)
def test_a_rising_load_is_followed_at_once(record: Record, namespace: str, case: Case) -> None:
    assert max(record.before(namespace, case)) > REPLICAS, record.seconds_and_counts(
        namespace, case
    )


def test_a_falling_load_takes_every_target_down_in_the_end(record: Record) -> None:
    assert list(record.stuck) == []
