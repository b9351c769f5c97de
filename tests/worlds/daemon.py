"""The daemon as its users run it: a process, a YAML file, log lines on its standard output."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self, TypeVar

import requests
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.worlds.forking import Program, popen
from tests.worlds.waiting import wait_until

Line = dict[str, Any]
Document = dict[str, Any]
T = TypeVar("T")


class LineProcess:
    """A program that reports its progress in lines of JSON, which are collected in `lines`."""

    def __init__(self, process: subprocess.Popen[str] | Program, output: IO[str]) -> None:
        self.lines: list[Line] = []
        self._process, self._output = process, output
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, what: str, probe: Callable[[], T], timeout: float = 60.0) -> T:
        """Wait until something is true of it; a program that ends meanwhile fails the test."""

        def look() -> T:
            # It ends with the last line, which one that has ended may have left unread.
            reading = self._reader.is_alive()
            found = probe()
            assert found or reading, f"it ended: {self.lines}"
            return found

        return wait_until(what, look, timeout=timeout, interval=0.02)

    def wait_for(self, what: str, wanted: Callable[[Line], bool], timeout: float = 60.0) -> Line:
        return self.wait(what, lambda: [line for line in self.lines if wanted(line)], timeout)[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        code = self._process.wait(30)
        self._reader.join(10)
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._reader.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        self._reader.join(10)
        self._output.close()

    def _read(self) -> None:
        for line in self._output:
            # A process that is killed may leave half a line.
            if line.endswith("\n"):
                self.lines.append(json.loads(line))


class DaemonProcess(LineProcess):
    """`autoscaler run -c FILE`; ``within`` is a command that becomes the one put behind it."""

    def __init__(
        self,
        config: Path,
        environment: Mapping[str, str],
        *arguments: str,
        within: Sequence[str] = (),
    ) -> None:
        self.file = config
        argv, variables = ["run", "-c", str(config), *arguments], os.environ | dict(environment)
        if within:
            program = [*within, sys.executable, "-m", "autoscaler", *argv]
            super().__init__(*spawned(program, variables))
        else:
            super().__init__(*popen(argv, variables))

    # -- what it says ----------------------------------------------------------------------------

    def events(self, event: str) -> list[Line]:
        return [line for line in self.lines if line["event"] == event]

    def syncs(self, target: str) -> list[Line]:
        return [line for line in self.events("sync") if line["target"] == target]

    def writes(self, target: str) -> list[Line]:
        return [line for line in self.syncs(target) if line.get("write") == "written"]

    def wait_event(self, event: str, count: int = 1) -> Line:
        """Wait for ``count`` lines of one kind, and return the last of them."""
        return self.wait(f"{count} {event}", lambda: self.events(event)[count - 1 :])[0]

    def first_sync(self, target: str) -> Line:
        """Wait for the first line of a target; the lines of one sync have no order."""
        return self.wait(f"a sync of {target}", lambda: self.syncs(target))[0]

    def wait_write(self, target: str, replicas: int) -> None:
        self.wait(
            f"{target} at {replicas}",
            lambda: replicas in [line["desired_replicas"] for line in self.writes(target)],
        )

    # -- what it serves --------------------------------------------------------------------------

    @property
    def address(self) -> str:
        address: str = self.events("listening")[0]["address"]
        return address

    def page(self, path: str) -> str:
        return requests.get(f"http://{self.address}{path}", timeout=10).text

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the series of a name that have these labels, on the metrics page."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.page("/metrics"))
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def component(self, name: str) -> Document:
        components = yaml.safe_load(self.page("/readyz"))["components"]
        return next((state for state in components if state["name"] == name), {})

    def write(self, document: Mapping[str, object]) -> None:
        """Write another configuration, without a signal to the daemon."""
        write_config(self.file, document)


def spawned(
    argv: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[str], IO[str]]:
    """Start a program whose standard output, with the errors, can be read."""
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    return process, process.stdout


@contextmanager
def running(
    file: Path, environment: Mapping[str, str], *arguments: str, within: Sequence[str] = ()
) -> Iterator[DaemonProcess]:
    """Run the daemon until it serves; in the end it must stop as it should, without a fault."""
    with DaemonProcess(file, environment, *arguments, within=within) as daemon:
        daemon.wait_event("started")
        yield daemon
        assert daemon.stop() == 0
    assert not daemon.events("fault")
    assert not daemon.events("sync_failed")


def command(
    *arguments: object, environment: Mapping[str, str] | None = None, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run another command of the program, as an operator does; it must end with a code, if any."""
    argv = list(map(str, arguments))
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        variables = os.environ | dict(environment or {})
        ended = Program(argv, variables, output.fileno(), errors.fileno()).wait(60)
        output.seek(0)
        errors.seek(0)
        ran = subprocess.CompletedProcess(argv, ended, output.read(), errors.read())
    assert code in {None, ran.returncode}, ran.stdout + ran.stderr
    return ran


# -- its configuration ---------------------------------------------------------------------------


def write_config(path: Path, document: Mapping[str, object]) -> Path:
    """Write a configuration file and return its path.

    Unless the document says otherwise, nothing is kept outside the test and no port is taken.
    """
    path.write_text(yaml.safe_dump({"stateDirectory": None, "listen": None, **document}))
    return path


def external(metric: str, average: object, **labels: str) -> Document:
    """Return an External metric with an AverageValue; labels select its series."""
    named: Document = {"name": metric}
    if labels:
        named["selector"] = {"matchLabels": labels}
    target = {"type": "AverageValue", "averageValue": average}
    return {"type": "External", "external": {"metric": named, "target": target}}


def target(namespace: str, name: str, metric: Document, **more: object) -> Document:
    """Return a target: a Deployment of 1 to 10 replicas, unless ``more`` says otherwise."""
    return {
        "namespace": namespace,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": 10,
        "metrics": [metric],
        **more,
    }
