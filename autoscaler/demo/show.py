"""The demo: starts its parts, runs the story, and removes everything."""

import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich.console import Console

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError, connect
from autoscaler.demo import daemon, prometheus
from autoscaler.demo.apiserver import StandInCluster
from autoscaler.demo.children import DemoError
from autoscaler.demo.daemon import ClusterAccess, DemoDaemon
from autoscaler.demo.exporter import Exporter
from autoscaler.demo.fleet import Fleet
from autoscaler.demo.options import DemoOptions
from autoscaler.demo.prometheus import Prometheus
from autoscaler.demo.queue import RunningQueue
from autoscaler.demo.screen import LiveScreen, PlainScreen, Record, Screen
from autoscaler.demo.services import services
from autoscaler.demo.story import DEPLOYMENT, Story
from autoscaler.demo.traffic import Traffic

_REFRESH = 0.25
_FIRST_POD_WITHIN = 120.0
_SETTLED = 2.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class _Stage:
    queue: RunningQueue
    prometheus: Prometheus
    daemon: DemoDaemon

    def check(self) -> None:
        """Raise DemoError if a process has ended by itself."""
        self.prometheus.process.check()
        self.daemon.process.check()


def perform(options: DemoOptions) -> int:
    """Run the demo; the exit code is 0, 1 if it fails, or 128 + the signal that stopped it."""
    console = Console(highlight=False)
    stop = threading.Event()
    with _signals_set(stop) as received:
        try:
            told = _play(options, console, stop)
        except (DemoError, ConnectError) as error:
            # Ctrl-C in a terminal also ends the child processes: that is no failure.
            if not received:
                print(f"The demo stopped: {error}", file=sys.stderr)
                return 1
            told = False
    if received and not told:
        console.print("Stopped.")
        return 128 + received[0]
    return 0


@contextmanager
def _signals_set(stop: threading.Event) -> Iterator[list[int]]:
    """Set the event on a signal, and yield the list of signals received."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        stop.set()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _play(options: DemoOptions, console: Console, stop: threading.Event) -> bool:
    """Start everything, run the story, and remove everything in any case.

    Returns whether the story was told to its end.
    """
    story, record = options.story, Record()
    binary = prometheus.find_binary()

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="autoscaler-demo-")))
        stage = _set_stage(stack, options, binary, folder, say, stop)
        if stage is None or not _wait_for_worker(stage, stop, say):
            return False
        with _screen(console, story) as screen:
            _tell(story, stage, screen, record, stop)
        if stop.is_set():
            return False
        _summarize(record, say)
        keep = console.is_terminal if options.keep is None else options.keep
        if keep:
            _stay(stage, stop, say)
    _say_what_is_next(say)
    return True


def _set_stage(
    stack: ExitStack,
    options: DemoOptions,
    binary: str,
    folder: Path,
    say: Callable[[str], None],
    stop: threading.Event,
) -> _Stage | None:
    """Start the parts in their order; None if ``stop`` was set meanwhile."""
    story = options.story
    access = _access(stack, options, folder, say)
    api = stack.enter_context(connect(access.kubeconfig, access.context))
    others = services(clock.wall())
    fleet = stack.enter_context(Fleet(api, access.namespace, others, say))
    exporter = stack.enter_context(Exporter())
    stack.enter_context(Traffic(exporter, access.namespace, fleet.pods))
    queue = stack.enter_context(RunningQueue(story, fleet.workers, exporter.publish))
    say("Starting Prometheus, which scrapes the queue ...")
    server = stack.enter_context(
        prometheus.running(binary, folder / "prometheus", exporter.address, stop)
    )
    if stop.is_set():
        return None
    say(f"Prometheus is at {server.url} while the demo lasts. Starting the autoscaler ...")
    document = daemon.config(story, others, server.url, access)
    process = stack.enter_context(
        daemon.running(document, access.namespace, folder / "autoscaler", stop)
    )
    say(f"The pages of the autoscaler are at {process.url} while the demo lasts.")
    return _Stage(queue, server, process)


def _access(
    stack: ExitStack, options: DemoOptions, folder: Path, say: Callable[[str], None]
) -> ClusterAccess:
    if options.context is not None:
        say(
            f"Working in the namespace {options.namespace}, made for the demo, of the cluster of "
            f"context {options.context} ..."
        )
        return ClusterAccess(None, options.context, options.namespace)
    cluster = stack.enter_context(StandInCluster(ready_after=options.story.pod_start))
    say(f"A stand-in for a cluster is at {cluster.url} ...")
    return ClusterAccess(cluster.kubeconfig(folder / "kubeconfig"), "demo", options.namespace)


def _wait_for_worker(stage: _Stage, stop: threading.Event, say: Callable[[str], None]) -> bool:
    """Wait for the first worker; False if ``stop`` was set before."""
    say("Waiting for the first worker to be ready ...")
    deadline = clock.monotonic() + _FIRST_POD_WITHIN
    while not stop.is_set():
        if stage.queue.state.workers.ready > 0:
            stage.queue.begin()
            return True
        stage.check()
        if clock.monotonic() > deadline:
            raise DemoError(
                f"no pod of the Deployment {DEPLOYMENT} was ready within {_FIRST_POD_WITHIN:.0f} s"
            )
        stop.wait(_REFRESH)
    return False


def _screen(console: Console, story: Story) -> Screen:
    return LiveScreen(console, story) if console.is_terminal else PlainScreen(console)


def _tell(
    story: Story, stage: _Stage, screen: Screen, record: Record, stop: threading.Event
) -> None:
    """Show the story until the workers are back to one.  Raises DemoError if they never are."""
    settled: float | None = None
    while not stop.wait(_REFRESH):
        stage.check()
        state = stage.queue.state
        screen.show(record, record.add(state, stage.daemon.news()))
        at_rest = state.workers.ready == state.workers.desired == 1
        told = state.elapsed >= story.last_phase_at and record.peak_workers > 1
        if not (told and at_rest):
            settled = None
        elif settled is None:
            settled = state.elapsed
        elif state.elapsed - settled > _SETTLED:
            return
        if state.elapsed > story.longest:
            raise DemoError(
                f"the workers have not gone up and back to one within {story.longest:.0f} s. "
                f"The last lines of the autoscaler's log:\n{stage.daemon.process.tail()}"
            )


def _summarize(record: Record, say: Callable[[str], None]) -> None:
    say("")
    say(
        f"In {record.state.elapsed:.0f} s the queue grew to {record.peak_queue} messages and the "
        f"workers from 1 to {record.peak_workers} and back."
    )


def _stay(stage: _Stage, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Go on until a signal, and say what can be tried meanwhile."""
    command, at = _command(), stage.daemon
    for line in (
        "",
        f"It goes on, with a burst of messages now and then: Ctrl-C ends it. See {at.url}",
        "or, in another terminal:",
        f"  {command} status --url {at.url}",
        f"  {command} history --since 10m --url {at.url}",
        f"  {command} explain {at.target} --last-change --url {at.url}",
        f"  {command} plan -c {at.file} --explain",
    ):
        say(line)
    while not stop.wait(_REFRESH):
        stage.check()


def _say_what_is_next(say: Callable[[str], None]) -> None:
    for line in (
        "",
        "Next, with your own cluster, Prometheus and queue (README.md tells more):",
        "  autoscaler validate autoscaler.yaml            tells every mistake at once",
        "  autoscaler plan -c autoscaler.yaml --explain   what it would do now, and why",
        "  autoscaler run -c autoscaler.yaml              the daemon that you saw at work",
        "  autoscaler status -c autoscaler.yaml           how each target stands",
        "  autoscaler explain NAMESPACE/NAME --at 03:12   why it did that",
        "Begin with a copy of config/queue.yaml; docs/configuration.md has every key.",
    ):
        say(line)
    command = _command()
    if command != "autoscaler":
        say(f"In this folder, autoscaler is: {command}")


def _command() -> str:
    """Return how autoscaler is run from this folder."""
    if shutil.which("autoscaler") is not None:
        return "autoscaler"
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return f"{python} -m autoscaler"
