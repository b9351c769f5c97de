"""What the HPA's settings cost on real workloads: `python -m benchmarks.replay [DIRECTORY]`.

Each trace is a load of requests, scaled to 20 pods on average; a pod serves 100 of them, and the
target is a part of that, as an External metric with `AverageValue`.  The exact decisions of the HPA
at its defaults (70 %, 300 s, pods that are ready after 60 s) stand beside others, of which each
differs in one thing.  A trace is a file `NAME.csv.gz` or `NAME.csv` with `t,value`; where rows are
absent is a gap, which is not scored.  Prints a Markdown table.
"""

import argparse
import json
import math
import multiprocessing
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from autoscaler.core.spec import (
    Behavior,
    ExternalMetric,
    Flags,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricTarget,
    PolicyType,
    ScaleTargetRef,
    ScalingPolicy,
    ScalingRules,
    SelectPolicy,
    TargetType,
)
from autoscaler.core.sync_result import Rules
from autoscaler.core.target import Query, Target
from autoscaler.lab.engine.answers import AnswerChunk, RecordedSeries, answers_from
from autoscaler.lab.engine.loads import RecordedLoad
from autoscaler.lab.engine.measures import Measures
from autoscaler.lab.engine.outcome import OutcomeWatcher
from autoscaler.lab.engine.replay import own_reason
from autoscaler.lab.engine.workloads import SimulatedWorkload
from autoscaler.lab.engine.world import SimulatedTarget, World
from autoscaler.lab.past.file_data import Samples, read_samples
from benchmarks.tables import markdown

PERIOD = 15.0
MEAN_PODS, SERVED_BY_POD = 20.0, 100.0
SMOOTHED_SECONDS = 60.0
"""A trace of a finer step is averaged over so long, as `rate(...[1m])` does."""
MADE_BY_HAND = Path(__file__).parent / "traces"
BEST_KNOWN = Path("../shared/traces")


@dataclass(frozen=True, slots=True)
class Setting:
    """The window for scaling down and the delay in seconds, the target in percent."""

    name: str
    window: int = 300
    target: int = 70
    ready: float = 60.0


DEFAULT = Setting("the HPA's defaults: 70 %, 300 s, ready after 60 s")
SETTINGS = (
    DEFAULT,
    Setting("no stabilization", window=0),
    Setting("60 s window", window=60),
    Setting("target 50 %", target=50),
    Setting("target 90 %", target=90),
    Setting("ready after 10 s", ready=10.0),
    Setting("ready after 180 s", ready=180.0),
)


def load_of(samples: Samples) -> RecordedSeries:
    """Return the load on the grid of the syncs, in requests; gaps are left out."""
    points = list((_averaged if samples.step < PERIOD else _interpolated)(samples))
    mean = sum(value for _, value in points) / len(points)
    scale = MEAN_PODS * SERVED_BY_POD / mean
    times = array("d", [time for time, _ in points])
    return RecordedSeries({}, times, array("d", [value * scale for _, value in points]))


def _averaged(samples: Samples) -> Iterator[tuple[float, float]]:
    """Yield the mean of the last minute at each sync, where at least half of it is there."""
    times, values = samples.times, samples.values
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    expected = SMOOTHED_SECONDS / samples.step
    at = times[0] + SMOOTHED_SECONDS
    while at <= times[-1]:
        last, first = bisect_right(times, at), bisect_right(times, at - SMOOTHED_SECONDS)
        if last - first >= expected / 2:
            yield at, (sums[last] - sums[first]) / (last - first)
        at += PERIOD


def _interpolated(samples: Samples) -> Iterator[tuple[float, float]]:
    """Yield the value at each sync, on the line between two rows that follow each other."""
    longest = 1.5 * samples.step
    number = 0
    begin = samples.times[0]
    rows = zip(samples.times, samples.values, strict=True)
    for (time, value), (following, other) in pairwise(rows):
        if following - time > longest:
            number = math.ceil((following - begin) / PERIOD)
            continue
        while (at := begin + number * PERIOD) < following:
            if at >= time:
                yield at, value + (other - value) * (at - time) / (following - time)
            number += 1


def measured(load: RecordedSeries, setting: Setting, seconds: float) -> Measures:
    """Replay a load under a setting."""
    begin, end = load.times[0], load.times[-1] + PERIOD
    end = min(end, begin + seconds)
    served = SERVED_BY_POD * setting.target / 100
    metric = ExternalMetric(
        MetricIdentifier("requests"),
        MetricTarget(TargetType.AVERAGE_VALUE, average_value=round(served * 1000)),
    )
    spec = HorizontalPodAutoscalerSpec(
        ScaleTargetRef("apps/v1", "Deployment", "web"), 1, 100_000, (metric,), _behavior(setting)
    )
    first = max(1, math.ceil(load.values[0] / served)) if load.values[0] is not None else 1
    workload = SimulatedWorkload("web", begin, first, setting.ready)
    answers = answers_from([AnswerChunk(begin, math.inf, [load])], PERIOD)
    target = SimulatedTarget(
        Rules(Target("shop", spec, (Query("requests"),)), Flags()),
        workload,
        [RecordedLoad(answers, SERVED_BY_POD)],
    )
    watcher = OutcomeWatcher(begin, end, own_reason)
    for _ in World([target], watcher).run(begin, end):
        pass
    return watcher.outcomes()[0].measures


def _behavior(setting: Setting) -> Behavior | None:
    """Return the HPA's own defaults with another window; None for all of its defaults."""
    if setting.window == DEFAULT.window:
        return None
    fast = ScalingPolicy(PolicyType.PERCENT, 100, 15)
    four = ScalingPolicy(PolicyType.PODS, 4, 15)
    return Behavior(
        ScalingRules(0, SelectPolicy.MAX, (four, fast)),
        ScalingRules(setting.window, SelectPolicy.MAX, (fast,)),
    )


def rows_of(name: str, load: RecordedSeries, seconds: float) -> Iterator[list[str]]:
    """Yield a row of the table for each setting."""
    default = measured(load, DEFAULT, seconds)
    for setting in SETTINGS:
        found = default if setting is DEFAULT else measured(load, setting, seconds)
        yield [
            name if setting is DEFAULT else "",
            setting.name,
            f"{found.tau_under:.2%}",
            f"{found.theta_under:.2%}",
            f"{found.theta_over:.1%}",
            f"{found.replica_hours / (default.replica_hours or 1.0):.2f}",
            f"{found.changes * 86400 / (found.scored_seconds or 1.0):.0f}",
            f"{found.worst_shortage or 0}",
            f"{(found.longest_shortage_seconds or 0.0) / 60:.0f}",
        ]


HEAD = (
    "trace",
    "setting",
    "time short",
    "shortage",
    "surplus",
    "replica-hours, of the default's",
    "changes a day",
    "worst shortage, pods",
    "longest shortage, min",
)


def _rows_of_file(work: tuple[Path, float]) -> list[list[str]]:
    file, seconds = work
    return list(rows_of(file.name.partition(".csv")[0], load_of(read_samples(file)), seconds))


def traces_in(directory: Path) -> list[Path]:
    """Return the files with traces, in the order of their names."""
    return sorted(path for path in directory.iterdir() if ".csv" in path.suffixes)


def units_in(directory: Path) -> dict[str, str]:
    """Return what the directory's MANIFEST.jsonl says of the unit of each trace."""
    manifest = directory / "MANIFEST.jsonl"
    lines = manifest.read_text().splitlines() if manifest.exists() else []
    entries = [json.loads(line) for line in lines]
    return {entry["file"]: entry["unit"] for entry in entries}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = BEST_KNOWN if BEST_KNOWN.is_dir() else MADE_BY_HAND
    parser.add_argument("directory", type=Path, nargs="?", default=usual)
    parser.add_argument(
        "--days", type=float, default=math.inf, help="of each trace, from its begin"
    )
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    files = traces_in(options.directory)
    for name, unit in units_in(options.directory).items():
        print(f"{name}: {unit}")
    work = [(file, options.days * 86_400.0) for file in files]
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        found = pool.map(_rows_of_file, work, chunksize=1)
    print(markdown(HEAD, [row for rows in found for row in rows]))


if __name__ == "__main__":
    main()
