"""Do floors by forecast pay? `config/floors.yaml` in replays, beside lower targets of equal cost.

    python -m benchmarks.floors

writes two loads of three days into a real Prometheus and replays the last day of each: one that
rises from 200 to 2,000 requests per second within five minutes at 9:00 every day, and one with the
same rises at times that do not repeat. Pods are ready after three minutes. Each floor is compared
with no floor, and with no floor and a lower target per pod that costs as much.
"""

import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.command import Report, exit_code, hardware, parser_of
from tests.worlds.daemon import command
from tests.worlds.prometheus.past import sample_line, write_samples
from tests.worlds.prometheus.server import PrometheusServer

EXAMPLE = Path(__file__).parents[1] / "config" / "floors.yaml"
STEP, DAY = 60, 86_400
LOW, HIGH, RISE = 200.0, 2000.0, 300
"""Requests per second, and the seconds of a rise."""
READY_AFTER = "180s"
BEGIN = 1_767_225_600
"""2026-01-01T00:00:00Z; two days before the replayed one."""
NAMES = ("plain", "yesterday", "line", "smoothed")
_FLAGS = ("--storage.tsdb.retention.time=100y",)
LOWER = (100, 95, 90, 85, 80, 75, 70, 65, 60, 55, 50)
"""Targets per pod, of which the first that costs as much as a floor is compared with it."""


@dataclass(frozen=True)
class Outcome:
    """The share of the time with too few pods, and the hours of all replicas."""

    under: float
    hours: float


def load(starts: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Yield the times and values of a load that is high for three hours after each start."""
    for at in range(BEGIN, BEGIN + 3 * DAY, STEP):
        level = 0.0
        for start in starts:
            since = at - start
            if 0 <= since < 3 * 3600:
                level = max(level, min(1.0, since / RISE))
        yield at, LOW + (HIGH - LOW) * level


def loads() -> Mapping[str, Sequence[int]]:
    """Return the starts of the rises of both loads, in Unix seconds."""
    chance = random.Random(3)  # noqa: S311 - the same load each time
    days = [BEGIN + day * DAY for day in range(3)]
    return {
        "every day at 9:00": [day + 9 * 3600 for day in days],
        "at other times": [day + chance.randrange(20 * 60) * 60 for day in days],
    }


def replayed(url: str, folder: Path, targets: Mapping[str, object]) -> dict[str, Outcome]:
    """Replay the last day of some targets; return the outcomes by name."""
    file, assumed = folder / "autoscaler.yaml", folder / "assume.yaml"
    document = yaml.safe_load(EXAMPLE.read_text())
    document |= {"prometheus": {"url": url}, "targets": list(targets.values())}
    file.write_text(yaml.safe_dump(document))
    assumed.write_text(
        yaml.safe_dump(
            {
                "loads": [{"target": "shop/*", "capacity": 100}],
                "workloads": [{"target": "shop/*", "readyAfter": READY_AFTER, "replicas": 2}],
            }
        )
    )
    begin, end = (f"2026-01-0{day}T00:00:00Z" for day in (3, 4))
    options = ("--since", begin, "--until", end, "--step", "60s", "--no-cache", "-o", "json")
    ran = command("replay", "-c", file, "--assume", assumed, *options)
    return {
        target["target"].rpartition("/")[2]: Outcome(
            target["measures"]["tauUnder"], target["measures"]["replicaHours"]
        )
        for target in json.loads(ran.stdout)["targets"]
    }


def variants() -> dict[str, object]:
    """Return the targets of the example, and without a floor one of each target per pod."""
    document = yaml.safe_load(EXAMPLE.read_text())
    found = {target["scaleTargetRef"]["name"]: target for target in document["targets"]}
    plain = {key: part for key, part in found["line"].items() if key != "minReplicasQuery"}
    for per_pod in LOWER:
        metrics = json.loads(json.dumps(plain["metrics"]))
        metrics[0]["external"]["target"]["averageValue"] = per_pod
        ref = {**plain["scaleTargetRef"], "name": f"plain-{per_pod}"}
        found[ref["name"]] = {**plain, "metrics": metrics, "scaleTargetRef": ref}
    return found


def compared(folder: Path, starts: Sequence[int]) -> dict[str, tuple[Outcome, Outcome]]:
    """Return each floor's outcome, and that of the lower target which costs at least as much."""
    write_samples(
        folder / "prometheus",
        (
            sample_line("requests_per_second", {"namespace": "shop"}, value, at)
            for at, value in load(starts)
        ),
    )
    with PrometheusServer(folder / "prometheus", flags=_FLAGS) as server:
        outcomes = replayed(server.start().url, folder, variants())
    plain = [outcomes[f"plain-{per_pod}"] for per_pod in LOWER]
    outcomes["plain"] = plain[0]
    return {
        name: (
            outcomes[name],
            next((o for o in plain if o.hours >= outcomes[name].hours), plain[-1]),
        )
        for name in NAMES
    }


def main(arguments: Sequence[str]) -> int:
    """Replay, print a table for each load and return the exit code."""
    parser_of("floors", __doc__).parse_args(arguments)

    def measure(report: Report) -> int:
        print(hardware())
        for name, starts in loads().items():
            report(name)
            with tempfile.TemporaryDirectory() as folder:
                found = compared(Path(folder), starts)
            print(f"\nrises {name}\n\n| floor | too few pods | replica-hours | lower target |")
            print("|---|---|---|---|")
            for floor, (own, lower) in found.items():
                print(f"| {floor} | {own.under:.2%} | {own.hours:.0f} | {lower.under:.2%} |")
        return 0

    return exit_code(measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
