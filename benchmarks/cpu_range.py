"""How fast a query of CPU sees a step of load, by its range: `python -m benchmarks.cpu_range`.

Counters of pods are written into a real Prometheus as it would have scraped them from cAdvisor,
which looks at a container every 10 to 20 s only.  It is then asked for every other second of a step
up, a step down and constant load, beside a model of metrics-server, so that no time passes.
"""

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.cadvisor import (
    METRIC_RESOLUTION,
    CAdvisor,
    Counter,
    MetricsServer,
    Sample,
    bursts,
    scrapes,
)
from benchmarks.command import Report, exit_code
from benchmarks.tables import markdown
from tests.worlds.prometheus.server import PrometheusServer

USAGE = "container_cpu_usage_seconds_total"
KNOWN = "known"
"""Which copy of a series counts at an instant."""
QUERIES = {
    "irate[2m]": f"irate({USAGE}{{%s}}[2m])",
    "rate[1m]": f"rate({USAGE}{{%s}}[1m])",
    "rate[90s]": f"rate({USAGE}{{%s}}[90s])",
    "rate[2m]": f"rate({USAGE}{{%s}}[2m])",
    "rate[3m]": f"rate({USAGE}{{%s}}[3m])",
    "rate[5m]": f"rate({USAGE}{{%s}}[5m])",
}
LONGEST = 300
"""Seconds of the longest range."""
BASELINE = "metrics-server"

LOW, HIGH = 0.2, 1.0
"""Cores."""
SETTLED = 400
"""By then each range lies within the same load."""
UP, DOWN, LOST, END = 900, 1800, 2300, 2700
"""When the load steps, when a scrape fails, and when the model ends: seconds."""
STEPS = range(0, END, 2)
BURSTS = range(SETTLED, LOST, 7)
"""At which seconds usage is read."""
TURN = 5.0
"""How long a bursting pod works and rests, on average: seconds."""
TOLERANCE = 0.1
TOGETHER = 10
"""Pods of one workload, whose average the HPA compares with the target."""
EPOCH = 1_700_000_000
"""The model's beginning for Prometheus."""

Readings = Sequence[float | None]
"""None where nothing is read."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What was read of two containers, one that steps and one that bursts."""

    steps: Readings
    """At the instants of `STEPS`."""
    bursts: Readings
    """At the instants of `BURSTS`."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read usage: a query, scraped so often, with whose timestamps."""

    query: str
    interval: int
    honored: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """What is read of all pods; times in seconds, shares of all readings."""

    up: float
    down: float
    mean: float
    """What is read at constant load on average, as a share of the truth."""
    off: float
    """How many readings at constant load are wrong by more than the tolerance."""
    off_together: float
    """How many of the averages over `TOGETHER` pods are."""
    bursting: float
    """The standard deviation under bursts."""
    empty: float
    empty_lost: float
    """Seconds without a reading after one lost scrape."""


def figures(pods: Sequence[Pod]) -> Figures:
    """Return the figures of pods read in one way."""
    ups = [_seen(pod.steps, UP, lambda value: value >= LOW + 0.9 * (HIGH - LOW)) for pod in pods]
    downs = [
        _seen(pod.steps, DOWN, lambda value: value <= HIGH - 0.9 * (HIGH - LOW)) for pod in pods
    ]
    constant = [_errors(pod.steps) for pod in pods]
    readings = [error for one in constant for error in one]
    known = [error for error in readings if error is not None]
    together = [
        statistics.fmean(there)
        for at in range(0, len(pods), TOGETHER)
        for errors in zip(*constant[at : at + TOGETHER], strict=True)
        if (there := [error for error in errors if error is not None])
    ]
    return Figures(
        up=statistics.fmean(ups),
        down=statistics.fmean(downs),
        mean=1 + statistics.fmean(known),
        off=_off(known),
        off_together=_off(together),
        bursting=statistics.pstdev(
            [value for pod in pods for value in pod.bursts if value is not None]
        ),
        empty=readings.count(None) / len(readings),
        empty_lost=STEPS.step
        * statistics.fmean(pod.steps[LOST // STEPS.step :].count(None) for pod in pods),
    )


def _errors(readings: Readings) -> Readings:
    """Return how far off the truth each reading is while the load is constant, as shares of it."""
    return [
        None if value is None else value / load - 1
        for load, begin, end in ((LOW, SETTLED, UP), (HIGH, UP + SETTLED, DOWN))
        for value in readings[begin // STEPS.step : end // STEPS.step]
    ]


def _off(errors: Sequence[float]) -> float:
    return sum(abs(error) > TOLERANCE for error in errors) / len(errors)


def _seen(readings: Readings, since: int, enough: Callable[[float], bool]) -> float:
    """Return how many seconds after a step a reading is near its end for the first time."""
    for at, value in enumerate(readings[since // STEPS.step :]):
        if value is not None and enough(value):
            return float(at * STEPS.step)
    return math.inf


@dataclass(frozen=True, slots=True)
class Model:
    """Pods with their cAdvisors, and what else happens at random, by a seed."""

    containers: Sequence[tuple[CAdvisor, CAdvisor]]
    dice: random.Random

    @classmethod
    def of(cls, pods: int, seed: int) -> "Model":
        """Let cAdvisor look at so many pods until the end."""
        dice = random.Random(seed)  # noqa: S311 - no secret
        step = Counter(((0.0, LOW), (float(UP), HIGH), (float(DOWN), LOW)))
        return cls(
            [
                (
                    CAdvisor.of(step, END, dice),
                    CAdvisor.of(bursts(END, (LOW + HIGH) / 2, TURN, dice), END, dice),
                )
                for _ in range(pods)
            ],
            dice,
        )

    def scraped(self, interval: float) -> list[tuple[list[Sample], list[Sample]]]:
        """Return what is scraped of each pod; one scrape of each is lost."""
        found = []
        for steps, bursting in self.containers:
            instants = scrapes(interval, END, self.dice, LOST)
            found.append((steps.scraped(instants), bursting.scraped(instants)))
        return found

    def metrics_server(self) -> list[Pod]:
        """Return what metrics-server answers."""
        return [
            Pod(
                [MetricsServer(steps).at(second) for second in STEPS],
                [MetricsServer(bursting).at(second) for second in BURSTS],
            )
            for steps, bursting in self.scraped(METRIC_RESOLUTION)
        ]


def exposition(model: Model, intervals: Sequence[int]) -> str:
    """Return all samples as OpenMetrics, once with cAdvisor's timestamps and once with scrapes'."""
    usage = [f"# TYPE {USAGE.removesuffix('_total')} counter"]
    known = [f"# TYPE {KNOWN} gauge"]
    for interval in intervals:
        for at, (steps, bursting) in enumerate(model.scraped(interval)):
            for honored in (True, False):
                pod = f'{_labels(interval, honored=honored)},pod="{at}"'
                copies = math.ceil(LONGEST / interval) + 3 if honored else 1
                for copy in range(copies):
                    labels = f'{pod},copy="{copy}"'
                    known += _known(f"{KNOWN}{{{labels}}}", steps, copy, copies)
                    for container, samples in (("steps", steps), ("bursts", bursting)):
                        series = f'{USAGE}{{{labels},container="{container}"}}'
                        usage += _points(series, samples, copy, copies)
    return "\n".join([*usage, *known, "# EOF\n"])


def _points(series: str, samples: Sequence[Sample], copy: int, copies: int) -> list[str]:
    """Return the points of one copy.

    A sample with cAdvisor's timestamp is there before it is scraped, if all are written at once.
    So each copy lacks the first sample of some scrapes, far enough apart that no range sees two
    gaps, and counts only while what it lacks is not scraped yet.
    """
    if copies == 1:
        points = {one.scraped: one.value for one in samples}
    else:
        left = [one for at, one in enumerate(samples) if at % copies != (copy + 1) % copies]
        # Of samples with one timestamp Prometheus keeps the first.
        points = {one.looked: one.value for one in left}
    return [f"{series} {value!r} {EPOCH + instant:.3f}" for instant, value in points.items()]


def _known(series: str, samples: Sequence[Sample], copy: int, copies: int) -> list[str]:
    """Return a point for each instant at which a copy counts."""
    return [
        f"{series} 1 {EPOCH + second}"
        for at, (one, then) in enumerate(pairwise(samples))
        if at % copies == copy
        for second in range(math.ceil(one.scraped), math.ceil(then.scraped))
    ]


def _labels(interval: int, *, honored: bool) -> str:
    return f'interval="{interval}",timestamps="{"cadvisor" if honored else "scrape"}"'


class History:
    """A Prometheus with the samples of a model in its database."""

    def __init__(self, folder: Path, text: str) -> None:
        file = folder / "samples.txt"
        file.write_text(text)
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
        subprocess.run([*command, str(file), str(folder / "data")], check=True)
        self.server = PrometheusServer(
            folder, flags=["--storage.tsdb.retention.time=100y", "--query.lookback-delta=1s"]
        )

    def read(self, query: str, labels: str, pods: int) -> list[Pod]:
        """Return what a query reads of each pod."""
        steps = self._range(query % f'{labels},container="steps"', STEPS)
        bursting = self._range(query % f'{labels},container="bursts"', BURSTS)
        nothing: Readings = [None] * len(STEPS)
        return [
            Pod(steps.get(str(at), nothing), bursting.get(str(at), nothing)) for at in range(pods)
        ]

    def _range(self, promql: str, instants: range) -> dict[str, Readings]:
        asked = {
            "query": f"{promql} and on (interval, timestamps, pod, copy) {KNOWN}",
            "start": EPOCH + instants[0],
            "end": EPOCH + instants[-1],
            "step": instants.step,
        }
        address = f"{self.server.url}/api/v1/query_range?{urllib.parse.urlencode(asked)}"
        with urllib.request.urlopen(address, timeout=60) as response:  # noqa: S310 - our own server
            found = json.load(response)["data"]["result"]
        values: dict[str, dict[int, float]] = {}
        for series in found:
            points = ((int(at) - EPOCH, float(value)) for at, value in series["values"])
            values.setdefault(series["metric"]["pod"], {}).update(points)
        return {pod: [one.get(instant) for instant in instants] for pod, one in values.items()}


def measure(pods: int, intervals: Sequence[int], seed: int, report: Report) -> dict[Way, Figures]:
    """Return the figures of metrics-server, and of each query at each interval."""
    model = Model.of(pods, seed)
    report(f"{pods} pods, seed {seed}")
    found = {Way(BASELINE, int(METRIC_RESOLUTION), honored=True): figures(model.metrics_server())}
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        history = History(Path(name), exposition(model, intervals))
        with history.server.start():
            for honored in (True, False):
                for interval in intervals:
                    for query, promql in QUERIES.items():
                        read = history.read(promql, _labels(interval, honored=honored), pods)
                        found[Way(query, interval, honored=honored)] = figures(read)
                    report(f"scraped every {interval} s, {_whose(honored)}")
    return found


def table(found: Mapping[Way, Figures], *, honored: bool) -> str:
    """Return a table of all queries, beside metrics-server."""
    (baseline,) = (one for way, one in found.items() if way.query == BASELINE)
    head = [
        "",
        "scraped every",
        "step up seen after, s",
        f"/ {BASELINE}",
        "step down, s",
        "mean of constant load",
        "off by > 10 %, one pod",
        f"{TOGETHER} pods",
        f"bursts / {BASELINE}",
        "empty",
        "empty after a lost scrape, s",
    ]
    rows = [
        _row(way, one, baseline)
        for way, one in found.items()
        if way.honored is honored or way.query == BASELINE
    ]
    return markdown(head, rows)


def _row(way: Way, one: Figures, baseline: Figures) -> list[str]:
    return [
        way.query,
        f"{way.interval} s",
        f"{one.up:.0f}",
        f"{one.up / baseline.up:.1f}",
        f"{one.down:.0f}",
        f"{one.mean:.0%}",
        f"{one.off:.0%}",
        f"{one.off_together:.0%}",
        f"{one.bursting / baseline.bursting:.2f}",
        f"{one.empty:.0%}",
        f"{one.empty_lost:.0f}",
    ]


def _whose(honored: bool) -> str:  # noqa: FBT001
    return "timestamps of cAdvisor" if honored else "timestamps of the scrapes"


def main() -> None:
    """Measure, and print a table for each kind of timestamps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=30, metavar="N", help="(30)")
    parser.add_argument("--intervals", type=int, nargs="+", default=[15, 30], metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is random (1)")
    given = parser.parse_args()

    def work(report: Report) -> int:
        found = measure(given.pods, given.intervals, given.seed, report)
        for honored in (True, False):
            print(f"\nhonor_timestamps: {str(honored).lower()}\n")
            print(table(found, honored=honored))
        return 0

    sys.exit(exit_code(work))


if __name__ == "__main__":
    main()
