"""What targets as objects in the cluster cost, compared with the same targets in a file.

    python -m benchmarks.objects --targets 5000

measures the daemon with a file and with as many PromqlAutoscalers on the same real servers: its
memory, the time until every target is decided, its requests at rest, how soon a changed object is
in force, how soon 1,000 new ones are, and what an object costs that is edited ten times a second.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

from autoscaler.config.objects import API_VERSION, KIND, PLURAL
from benchmarks import counters, fleet, measures, processes
from benchmarks.bed import Bed
from benchmarks.bulk import Request
from benchmarks.command import Report, exit_code, hardware, parser_of
from benchmarks.daemon import Daemon, Settings, log_file, write_targets
from benchmarks.sides import LOW
from tests.worlds import objects
from tests.worlds.controlplane.api import Json
from tests.worlds.service_account import target_rules
from tests.worlds.waiting import wait_until

_PATH = f"/apis/{API_VERSION}/namespaces/{fleet.NAMESPACE}/{PLURAL}"
_PERIOD = 15.0
_EDITS, _EDIT_SECONDS = 300, 30.0


@dataclass(frozen=True)
class Options:
    """How many targets, and how many more are created at once."""

    targets: int = 5000
    more: int = 1000


def configuration(bed: Bed, specs: Sequence[Json], **more: object) -> Path:
    """Write the configuration of targets, with the library of queries."""
    queries = {fleet.METRIC: fleet.QUERY}
    path = write_targets(bed, Settings(period=_PERIOD), queries, specs)
    with path.open("a") as file:
        file.writelines(f"{key}: {json.dumps(value)}\n" for key, value in more.items())
    return path


def manifest(number: int, **more: object) -> Json:
    """Return the object of a Deployment that follows its queue."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": fleet.name(number)},
        "spec": {**fleet.queue_spec(number), **more},
    }


def create(bed: Bed, numbers: range) -> None:
    """Create objects."""
    bed.bulk.send(Request("POST", _PATH, manifest(number)) for number in numbers)


def patch(bed: Bed, number: int, most: int) -> None:
    """Change one object."""
    body: Json = {"spec": {"maxReplicas": most}}
    bed.bulk.send([Request("PATCH", f"{_PATH}/{fleet.name(number)}", body)])


def logged(bed: Bed, daemon: Daemon, text: str, count: int = 1) -> float:
    """Wait until the log has a text so often; return the seconds that it took."""
    begun = time.monotonic()

    def look() -> bool:
        daemon.check()
        return log_file(bed).read_text().count(text) >= count

    wait_until(text, look, timeout=300)
    return time.monotonic() - begun


def requests_at_rest(bed: Bed, seconds: float) -> str:
    """Return the requests that the API server got in a time, without its own."""
    before = counters.api_requests(bed.bulk.text("/metrics"))
    time.sleep(seconds)
    found = counters.api_requests(bed.bulk.text("/metrics")) - before
    return ", ".join(f"{count} {name}" for name, count in found.most_common()) or "none"


def run(options: Options, report: Report) -> str:
    """Measure both and return the lines of the report."""
    number, lines = options.targets, [hardware()]
    with Bed(report) as bed:
        report(f"creating {number:,} Deployments")
        fleet.create_deployments(bed.bulk, range(number + options.more), LOW)
        measures.publish(bed, number + options.more, LOW)
        specs = [fleet.queue_spec(each) for each in range(number)]
        with Daemon(bed, configuration(bed, specs), number, "debug") as daemon:
            file_seconds = daemon.wait_first_sync(300) - daemon.started
            requests_at_rest(bed, 2 * _PERIOD)
            memory = processes.resident_bytes(daemon.pids)["autoscaler"]
        with bed.plane.api() as api:
            objects.install(api)
            rule: Json = {"rules": objects.rights_to_objects(target_rules())}
            api.patch("/apis/rbac.authorization.k8s.io/v1/clusterroles/autoscaler", rule)
        report(f"creating {number:,} objects")
        create(bed, range(number))
        quotas = {"objects": number + options.more, "queries": 10}
        settings = {"enabled": True, "queries": [fleet.METRIC], "quotas": quotas}
        with Daemon(bed, configuration(bed, [], objects=settings), number, "debug") as daemon:
            seconds = daemon.wait_first_sync(300) - daemon.started
            ratio = seconds / file_seconds
            lines.append(
                f"all decided: file {file_seconds:.1f} s, objects {seconds:.1f} s ({ratio:.2f})"
            )
            lines += at_rest(bed, daemon, number, memory, report)
            lines += while_edited(bed, daemon, options)
    return "\n".join(lines)


def at_rest(bed: Bed, daemon: Daemon, number: int, memory: int, report: Report) -> Iterator[str]:
    """Yield the requests and the memory once each object has its status."""
    begun = time.monotonic()
    statuses = wait_until("statuses", lambda: written(bed, number), timeout=1200)
    yield f"{statuses:,} statuses are written after {time.monotonic() - begun:.0f} s"
    while (requests := requests_at_rest(bed, _PERIOD)) != "none":
        report(requests)
    rest = requests_at_rest(bed, 2 * _PERIOD)
    grown = (processes.resident_bytes(daemon.pids)["autoscaler"] - memory) / 2**20
    yield f"memory: file {memory / 2**20:.0f} MiB, objects {grown:+.0f} MiB"
    yield f"requests to the API server in {2 * _PERIOD:g} s at rest: {rest}"


def while_edited(bed: Bed, daemon: Daemon, options: Options) -> Iterator[str]:
    """Yield how soon changes are in force, and the cost of one that never ends."""
    number = options.targets
    patch(bed, 7, 99)
    change = logged(bed, daemon, '"event": "target_changed"')
    yield f"a changed object is in force after {change:.1f} s"
    used = processes.cpu_seconds(daemon.pids)["autoscaler"]
    time.sleep(_EDIT_SECONDS)
    idle = processes.cpu_seconds(daemon.pids)["autoscaler"] - used
    for edit in range(_EDITS):
        patch(bed, 8, 50 + edit % 40)
        time.sleep(_EDIT_SECONDS / _EDITS)
    edited = processes.cpu_seconds(daemon.pids)["autoscaler"] - used - idle
    yield (
        f"CPU in {_EDIT_SECONDS:g} s: {idle:.1f} s at rest, {edited:.1f} s while one object is "
        f"edited {_EDITS / _EDIT_SECONDS:g} times a second ({edited / idle:.2f})"
    )
    create(bed, range(number, number + options.more))
    total = number + options.more
    created = wait_for_metric(daemon, f'autoscaler_objects{{state="accepted"}} {total}.0')
    yield f"{options.more:,} new objects are in force after {created:.1f} s"


def written(bed: Bed, number: int) -> int:
    """Return how many objects have a status once all have one; else 0."""
    count = bed.bulk.text(_PATH).count('"observedGeneration"')
    return count if count >= number else 0


def wait_for_metric(daemon: Daemon, line: str) -> float:
    """Wait for a line on the metrics page; return the seconds that it took."""
    begun = time.monotonic()
    page = f"http://{daemon.address()}/metrics"
    wait_until(
        line, lambda: line.encode() in urllib3.request("GET", page).data, timeout=300, interval=0.2
    )
    return time.monotonic() - begun


def main(arguments: Sequence[str]) -> int:
    """Measure, print the lines and return the exit code."""
    parser = parser_of("objects", __doc__)
    parser.add_argument("--targets", type=int, metavar="N", help="the number of targets (5000)")
    parser.add_argument("--more", type=int, metavar="N", help="created at once (1000)")
    parser.add_argument("--quick", action="store_true", help="smaller defaults: does it work?")
    quick = "--quick" in arguments
    parser.set_defaults(**dataclasses.asdict(Options(20, 10) if quick else Options()))
    given = vars(parser.parse_args(arguments))
    del given["quick"]
    options = Options(**given)

    def measure(report: Report) -> int:
        print(run(options, report))
        return 0

    return exit_code(measure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
