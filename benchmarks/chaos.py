"""Chaos: two daemons, two Prometheus servers and a control plane that all fail at random.

`python -m benchmarks.chaos --minutes 60 --seed 1` lets the loads of some targets step, and kills,
stops and freezes every process.  It prints each count that broke a promise (`benchmarks.promises`)
and what the daemons logged; the exit code is 1 if a promise was broken.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import requests

from benchmarks import fleet
from benchmarks.bulk import Bulk
from benchmarks.promises import (
    HIGHEST,
    KINDS,
    LOOK_SECONDS,
    LOWEST,
    PER_REPLICA,
    PERIOD,
    RANGE,
    Outage,
    Seen,
    broken,
    target,
)
from tests.worlds.controlplane.api import ApiError
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.daemon import write_config
from tests.worlds.process import ServerProcess
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.service_account import service_account

_PLATEAU = (150.0, 300.0)
"""How long a load stays, seconds: longer than any outage, so that each can be read."""
_LONGEST = 60.0
"""How long a Prometheus is away at most, seconds."""
_PAUSE = (5.0, 40.0)
_CALM_EVERY, _CALM = 600.0, 180.0
"""How often nothing goes wrong, and for how long, seconds."""

Say = Callable[[str], None]


class Loads:
    """What each target needs, in steps, published by one exporter for each Prometheus."""

    def __init__(self, chance: random.Random) -> None:
        self.exporters = {"a": Exporter(), "b": Exporter()}
        self._chance = chance
        self._until = {kind.name: 0.0 for kind in KINDS}
        self._done = {kind.name: 0.0 for kind in KINDS}
        self._last = time.time()
        self.steps: dict[str, list[tuple[float, int]]] = {kind.name: [] for kind in KINDS}
        self.advance(self._last)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def advance(self, now: float) -> None:
        """Let loads step and counters grow."""
        for kind in KINDS:
            steps, labels = self.steps[kind.name], {"queue": kind.name}
            if now >= self._until[kind.name]:
                self._until[kind.name] = now + self._chance.uniform(*_PLATEAU)
                needed = self._chance.randint(LOWEST, HIGHEST)
                if not steps or steps[-1][1] != needed:
                    steps.append((now, needed))
            # A little less than full, so that no rounding asks for one more.
            load = PER_REPLICA * (steps[-1][1] - 0.2)
            self._done[kind.name] += load * (now - self._last)
            for server in kind.servers:
                self.exporters[server].set("depth", labels, load)
                self.exporters[server].set("done_total", labels, self._done[kind.name])
        self._last = now

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.advance(time.time())


@dataclass(frozen=True)
class Daemon:
    """One of the two; its log has all its lives."""

    name: str
    config: Path
    text: str
    state: Path
    process: ServerProcess


@dataclass
class Trouble:
    """What goes wrong, with which parts, for how many seconds; its begin and its end."""

    what: str
    parts: frozenset[str]
    seconds: float
    begin: Callable[[], object]
    end: Callable[[], object]
    began: float = 0.0


class Bed:
    """The servers and the daemons, all on loopback."""

    def __init__(self, folder: Path, seed: int, stack: ExitStack) -> None:
        self.loads = stack.enter_context(Loads(random.Random(seed)))  # noqa: S311 - no secret
        self.servers = {}
        for name, exporter in self.loads.exporters.items():
            stack.enter_context(exporter)
            self.servers[name] = stack.enter_context(
                PrometheusServer(folder / f"prometheus-{name}")
            )
            self.servers[name].start([exporter.target])
        self.plane = stack.enter_context(ControlPlane(controllers=()))
        bulk = stack.enter_context(Bulk(self.plane))
        fleet.create_namespace(bulk)
        for name, steps in self.loads.steps.items():
            fleet.create_named(bulk, [name], steps[0][1])
        self.api = stack.enter_context(self.plane.api())
        token = stack.enter_context(service_account(self.api, fleet.NAMESPACE))
        kubeconfig = self.plane.write_kubeconfig(folder / "kubeconfig", token)
        self.daemons = [self._daemon(folder, name, kubeconfig) for name in ("one", "two")]
        for daemon in self.daemons:
            daemon.process.start()
            stack.callback(daemon.process.stop)

    def counts(self) -> dict[str, int]:
        """Return how many replicas each Deployment is to have."""
        items = self.api.get(fleet.DEPLOYMENTS)["items"]
        return {item["metadata"]["name"]: item["spec"]["replicas"] for item in items}

    def _daemon(self, folder: Path, name: str, kubeconfig: Path) -> Daemon:
        own = folder / f"daemon-{name}"
        own.mkdir()
        asked = {
            "depth": "sum by (queue) (depth)",
            "done": f"sum by (queue) (rate(done_total[{RANGE}s]))",
        }
        connections = {
            server: {"url": one.url, "timeout": "3s"} for server, one in self.servers.items()
        }
        document = {
            "prometheus": {**connections.pop("a"), "servers": connections},
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "syncPeriod": f"{PERIOD:g}s",
            # So that each load asks for one count.
            "tolerance": 0,
            "stateDirectory": str(own / "state"),
            "listen": "127.0.0.1:0",
            "leaderElection": {"enabled": True, "namespace": fleet.NAMESPACE, "identity": name},
            "queries": {
                f"{what}-{server}": {
                    "query": promql,
                    "server": server if server != "a" else "default",
                }
                for server in self.servers
                for what, promql in asked.items()
            },
            "targets": [target(kind) for kind in KINDS],
        }
        config = write_config(own / "autoscaler.yaml", document)
        argv = [sys.executable, "-m", "autoscaler", "run", "-c", str(config)]
        argv += ["--log-format", "json", "--log-level", "debug"]
        process = ServerProcess(argv, folder / f"daemon-{name}.log")
        return Daemon(name, config, config.read_text(), own / "state", process)


class Chaos:
    """What goes wrong on a bed, at random."""

    def __init__(self, bed: Bed, seed: int, say: Say) -> None:
        self.outages: list[Outage] = []
        self.counts: dict[str, list[tuple[float, int]]] = {kind.name: [] for kind in KINDS}
        self._bed = bed
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._say = say
        self._now: list[Trouble] = []

    def run(self, seconds: float) -> Seen:
        """Make trouble for so long, with calm between and at the end."""
        begin = time.time()
        calm_until = next_at = begin + 60
        try:
            while (now := time.time()) < begin + seconds + _CALM:
                self._end(now)
                if now >= calm_until + _CALM_EVERY:
                    calm_until = now + _CALM
                if calm_until < now < begin + seconds and now >= next_at and len(self._now) < 2:
                    next_at = now + self._chance.uniform(*_PAUSE)
                    self._begin(self._trouble(), now)
                self._look(now)
                time.sleep(LOOK_SECONDS)
        finally:
            self._end(float("inf"))
        return Seen(self._bed.loads.steps, self.counts, self.outages, time.time())

    def _begin(self, trouble: Trouble, now: float) -> None:
        if any(trouble.parts & one.parts for one in self._now):
            return
        clock = time.strftime("%T", time.gmtime(now))
        self._say(f"{clock} {trouble.what}, {trouble.seconds:.0f} s")
        trouble.began = now
        self._now.append(trouble)
        trouble.begin()

    def _end(self, now: float) -> None:
        for trouble in [one for one in self._now if one.began + one.seconds <= now]:
            trouble.end()
            self._now.remove(trouble)
            self.outages.append(Outage(trouble.began, time.time(), trouble.parts))

    def _look(self, now: float) -> None:
        if any("api" in one.parts for one in self._now):
            return
        with suppress(ApiError, requests.RequestException):
            for name, count in self._bed.counts().items():
                seen = self.counts[name]
                if not seen or seen[-1][1] != count:
                    seen.append((now, count))

    def _trouble(self) -> Trouble:
        kinds = (
            self._of_a_daemon,
            self._of_a_daemon,
            self._of_a_configuration,
            self._of_prometheus,
            self._of_the_control_plane,
        )
        return self._chance.choice(kinds)()

    def _of_a_daemon(self) -> Trouble:
        one, uniform = self._chance.choice(self._bed.daemons), self._chance.uniform
        process, parts = one.process, frozenset({one.name})

        def forget() -> None:
            process.stop(0)
            shutil.rmtree(one.state, ignore_errors=True)

        def killed(what: str, begin: Callable[[], object]) -> Trouble:
            seconds = self._chance.choice((0.5, 3.0, 10.0, 25.0))
            return Trouble(f"{what} {one.name}", parts, seconds, begin, process.start)

        return self._chance.choice(
            (
                killed("kill -9 of daemon", lambda: process.stop(0)),
                killed("SIGTERM of daemon", lambda: process.stop(20)),
                killed("kill -9 and lost state of daemon", forget),
                self._frozen(f"daemon {one.name}", parts, uniform(2, 45), process.pid),
            )
        )

    def _of_a_configuration(self) -> Trouble:
        one = self._chance.choice(self._bed.daemons)
        texts = (one.text + "nonsense: [\n", one.text.replace("maxReplicas", "maxReplcas"), "")
        text = self._chance.choice(texts)

        def write(new: str) -> None:
            one.config.write_text(new)
            _signal(one.process.pid, signal.SIGHUP)

        return Trouble(
            f"bad configuration of daemon {one.name}",
            frozenset({one.name}),
            self._chance.uniform(5, 30),
            lambda: write(text),
            lambda: write(one.text),
        )

    def _of_prometheus(self) -> Trouble:
        name = self._chance.choice(sorted(self._bed.servers))
        server, scraped = self._bed.servers[name], [self._bed.loads.exporters[name].target]
        parts, seconds = frozenset({f"prometheus-{name}"}), self._chance.uniform(3, _LONGEST)
        if self._chance.random() < 0.5:
            return self._frozen(f"Prometheus {name}", parts, seconds, server.pid)
        what = f"stop of Prometheus {name}"
        return Trouble(what, parts, seconds, server.stop, lambda: server.start(scraped))

    def _of_the_control_plane(self) -> Trouble:
        plane, parts, seconds = self._bed.plane, frozenset({"api"}), self._chance.uniform(1, 30)
        grace = self._chance.choice((0.0, 10.0))
        stop = Trouble(
            "stop of kube-apiserver",
            parts,
            seconds,
            lambda: plane.stop_apiserver(grace),
            plane.start_apiserver,
        )
        boot = Trouble("boot of the control plane", parts, seconds, plane.crash, plane.start)
        frozen = [
            self._frozen(name, parts, seconds, plane.pids.get(name))
            for name in ("etcd", "kube-apiserver")
        ]
        return self._chance.choice((stop, boot, *frozen))

    @staticmethod
    def _frozen(what: str, parts: frozenset[str], seconds: float, pid: int | None) -> Trouble:
        return Trouble(
            f"SIGSTOP of {what}",
            parts,
            seconds,
            lambda: _signal(pid, signal.SIGSTOP),
            lambda: _signal(pid, signal.SIGCONT),
        )


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _logged(daemons: Sequence[Daemon], say: Say) -> Iterator[str]:
    """Say how often each event was logged, and yield what no log should hold."""
    events: Counter[str] = Counter()
    for daemon in daemons:
        for text in daemon.process.log_file.read_text(errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                yield f"daemon {daemon.name} printed no JSON: {text[:300]}"
                continue
            if line["level"] != "debug":
                events[f"{line['level']} {line['event']}"] += 1
            if "exception" in line:
                yield f"daemon {daemon.name} logged a defect: {text[:3000]}"
    for event, count in sorted(events.items()):
        say(f"{count:6} {event}")


def main() -> int:
    """Run, and print what was seen."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new folder that keeps logs and counts")
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, flush=True)

    with ExitStack() as stack:
        kept = options.keep
        folder = kept or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        bed = Bed(folder, options.seed, stack)
        seen = Chaos(bed, options.seed, say).run(60 * options.minutes)
        found = [*broken(seen), *_logged(bed.daemons, say)]
        courses = {"needed": seen.needed, "counts": seen.counts}
        (folder / "counts.json").write_text(json.dumps(courses, indent=1))
    changes = sum(len(one) - 1 for one in seen.counts.values())
    steps = sum(len(one) - 1 for one in seen.needed.values())
    say(f"{len(seen.outages)} troubles, {steps} steps of loads, {changes} changes of counts")
    for line in found:
        say(line)
    say(f"{len(found)} broken promises")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
