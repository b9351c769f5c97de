"""The demo: starts its parts, runs the story, and removes everything."""

import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from rich.console import Console

from autoscaler import clock
from autoscaler.demo.apiserver import StandInCluster
from autoscaler.demo.children import (
    DemoDaemon,
    DemoError,
    Prometheus,
    ServedCluster,
    daemon_config,
    find_binary,
    run_daemon,
    run_prometheus,
)
from autoscaler.demo.fleet import Fleet
from autoscaler.demo.queue import Exporter, RunningQueue, Traffic
from autoscaler.demo.screen import Progress, Show, live, plain
from autoscaler.demo.story import DEPLOYMENT, DemoOptions, Region, Story, services
from autoscaler.kubernetes import ConnectError, find_api_server
from autoscaler.persistence.temporary_folders import temporary_folder

_EXAMPLES = (Path("config/queue.yaml"), Path(sys.prefix, "share", "autoscaler", "queue.yaml"))
"""The example in a checkout, and in the environment of an installed package."""
_REFRESH = 0.25
_FIRST_POD_WITHIN = 120.0
_SETTLED = 2.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _RunningParts(NamedTuple):
    queues: Mapping[str, RunningQueue]
    """By region."""
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
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        finished = _play(options, console, stop)
    except (DemoError, ConnectError) as error:
        # Ctrl-C in a terminal also ends the child processes: not a failure.
        if not received:
            print(f"The demo stopped: {error}", file=sys.stderr)
            return 1
        finished = False
    if received and not finished:
        console.print("Stopped.")
        return 128 + received[0]
    return 0


def _play(options: DemoOptions, console: Console, stop: threading.Event) -> bool:
    """Start everything, run the story, and remove everything in any case.

    Returns whether the story ended.
    """
    story, regions = options.story, options.regions
    progress = {region.name: Progress() for region in regions}
    binary = find_binary()

    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder("autoscaler-demo-"))
        parts = _start_parts(stack, options, binary, folder, say, stop)
        if parts is None or not _wait_for_workers(parts, stop, say):
            return False
        screen = live(console, story) if console.is_terminal else nullcontext(plain(console))
        with screen as show:
            _tell(story, parts, show, progress, stop)
        if stop.is_set():
            return False
        _summarize(progress, say)
        keep = console.is_terminal if options.keep is None else options.keep
        if keep:
            _stay(parts, stop, say)
    _say_what_is_next(say)
    return True


def _start_parts(
    stack: ExitStack,
    options: DemoOptions,
    binary: str,
    folder: Path,
    say: Callable[[str], None],
    stop: threading.Event,
) -> _RunningParts | None:
    """Start the parts in their order; None if ``stop`` was set meanwhile."""
    clusters = [_cluster(stack, options, region, folder, say) for region in options.regions]
    queues, scraped = {}, []
    for cluster in clusters:
        queue, exporter = _run_workloads(stack, options.story, cluster, say)
        queues[cluster.region.name] = queue
        scraped.append((exporter.address, cluster.region.labels))
    say(f"Starting Prometheus, which scrapes the {'queue' if len(queues) == 1 else 'queues'} ...")
    server = stack.enter_context(run_prometheus(binary, folder / "prometheus", scraped, stop))
    if stop.is_set():
        return None
    say(f"Prometheus is at {server.url} while the demo lasts. Starting the autoscaler ...")
    document = daemon_config(options.story, server.url, clusters)
    process = stack.enter_context(run_daemon(document, clusters, folder / "autoscaler", stop))
    say(f"The pages of the autoscaler are at {process.url} while the demo lasts.")
    return _RunningParts(queues, server, process)


def _run_workloads(
    stack: ExitStack, story: Story, cluster: ServedCluster, say: Callable[[str], None]
) -> tuple[RunningQueue, Exporter]:
    """Create the workloads of the cluster, and their load."""
    api = stack.enter_context(find_api_server(cluster.kubeconfig, cluster.context).connect())
    fleet = stack.enter_context(Fleet(api, cluster.namespace, cluster.services, say))
    exporter, share = stack.enter_context(Exporter()), cluster.region.share
    stack.enter_context(Traffic(exporter, cluster.namespace, fleet.pods, share))
    queue = RunningQueue(story.with_load(share), fleet.workers, exporter.publish)
    return stack.enter_context(queue), exporter


def _cluster(
    stack: ExitStack,
    options: DemoOptions,
    region: Region,
    folder: Path,
    say: Callable[[str], None],
) -> ServedCluster:
    others, namespace = services(clock.wall(), region.labels), options.namespace
    if options.context is not None:
        say(
            f"Working in the namespace {options.namespace}, made for the demo, of the cluster of "
            f"context {options.context} ..."
        )
        return ServedCluster(region, None, options.context, namespace, others)
    cluster = stack.enter_context(StandInCluster(ready_after=options.story.pod_start))
    named = f"the cluster {region.name}" if region.name else "a cluster"
    say(f"A simulated API server for {named} is at {cluster.url} ...")
    kubeconfig = cluster.kubeconfig(folder / f"{region.name}.kubeconfig".lstrip("."))
    return ServedCluster(region, kubeconfig, "demo", namespace, others)


def _wait_for_workers(
    parts: _RunningParts, stop: threading.Event, say: Callable[[str], None]
) -> bool:
    """Wait for the first worker of each queue; False if ``stop`` was set before."""
    say("Waiting for the first worker to be ready ...")
    deadline, queues = clock.monotonic() + _FIRST_POD_WITHIN, parts.queues.values()
    while not stop.is_set():
        if all(queue.state.workers.ready > 0 for queue in queues):
            for queue in queues:
                queue.begin()
            return True
        parts.check()
        if clock.monotonic() > deadline:
            raise DemoError(
                f"no pod of the Deployment {DEPLOYMENT} was ready within {_FIRST_POD_WITHIN:.0f} s"
            )
        stop.wait(_REFRESH)
    return False


def _tell(
    story: Story,
    parts: _RunningParts,
    show: Show,
    progress: Mapping[str, Progress],
    stop: threading.Event,
) -> None:
    """Show the story until the workers are back to one.  Raises DemoError if they never are."""
    settled: float | None = None
    while not stop.wait(_REFRESH):
        parts.check()
        states = {region: queue.state for region, queue in parts.queues.items()}
        lines = parts.daemon.news()
        news = {name: progress[name].add(state, lines[name]) for name, state in states.items()}
        show(progress, news)
        elapsed = max(state.elapsed for state in states.values())
        played = elapsed >= story.last_phase_at
        if not (played and all(state.is_back_at_one for state in progress.values())):
            settled = None
        elif settled is None:
            settled = elapsed
        elif elapsed - settled > _SETTLED:
            return
        if elapsed > story.longest:
            never = f"the workers have not gone up and back to one within {story.longest:.0f} s"
            raise parts.daemon.process.failure(never, "the autoscaler's")


def _summarize(progress: Mapping[str, Progress], say: Callable[[str], None]) -> None:
    say("")
    for name, state in progress.items():
        queue = f"the queue of {name}" if name else "the queue"
        say(
            f"In {state.state.elapsed:.0f} s {queue} grew to {state.peak_queue} messages and "
            f"the workers from 1 to {state.peak_workers} and back."
        )


def _stay(parts: _RunningParts, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Continue until a signal, and print commands to try meanwhile."""
    command, at = _command(), parts.daemon
    workers = next(iter(at.targets.values()))
    for line in (
        "",
        f"The demo continues with bursts of messages; Ctrl-C ends it. See {at.url}",
        "or, in another terminal:",
        f"  {command} status --url {at.url}",
        f"  {command} history --since 10m --url {at.url}",
        f"  {command} explain {workers} --last-change --url {at.url}",
        f"  {command} plan -c {at.file} --explain",
        f"  {command} replay -c {at.file} {workers} --since 1m",
        f"  {command} replay -c {at.file} --since 1m --from-record",
    ):
        say(line)
    while not stop.wait(_REFRESH):
        parts.check()


def _say_what_is_next(say: Callable[[str], None]) -> None:
    command = _command()
    say("\nNext, with your own cluster, Prometheus and queue:")
    say("Write a configuration:")
    if example := next(filter(Path.is_file, _EXAMPLES), None):
        say(f"  cp {example} autoscaler.yaml")
    for does, arguments in (
        ("Print all of its errors:", "validate autoscaler.yaml"),
        ("Print what a daemon would do now, and why:", "plan -c autoscaler.yaml --explain"),
        ("Run the daemon:", "run -c autoscaler.yaml"),
        ("Print the state of each target:", "status -c autoscaler.yaml"),
        ("Explain its last decision:", "explain -c autoscaler.yaml shop/order-worker"),
    ):
        say(does)
        say(f"  {command} {arguments}")


def _command() -> str:
    """Return how this autoscaler is run from this folder, for a shell."""
    python = Path(sys.executable)
    script = python.with_name("autoscaler")
    if shutil.which("autoscaler") == str(script):
        return "autoscaler"
    program, arguments = (script, ()) if script.is_file() else (python, ("-m", "autoscaler"))
    if program.is_relative_to(Path.cwd()):
        program = program.relative_to(Path.cwd())
    return shlex.join((str(program), *arguments))
