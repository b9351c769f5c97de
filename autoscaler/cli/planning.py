"""`autoscaler plan`: one sync that writes nothing, as a table, an explanation or JSON."""

import json
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError
from autoscaler.app import wording
from autoscaler.app.explanation import explain as explain_result
from autoscaler.app.ports import SyncResult, SyncSummary
from autoscaler.app.record import record
from autoscaler.app.standing import verdict
from autoscaler.app.sync import Syncer
from autoscaler.config import Config, ConfigError, load
from autoscaler.config.pod_namespace import ANYWHERE, pod_namespace
from autoscaler.core.decision import MetricResult, Outcome
from autoscaler.core.observation import LONGEST_SENTENCE
from autoscaler.core.printable import printable
from autoscaler.core.target import Target
from autoscaler.daemon.world import world_to_plan

_PLAN_SECONDS = 30.0
_PLAIN_WIDTH = 200


class Collector:
    """A `Reporter` that keeps every result."""

    def __init__(self) -> None:
        self.results: list[SyncResult] = []

    def report(self, result: SyncResult) -> None:
        """Keep one result."""
        self.results.append(result)

    def fault(self, error: BaseException) -> None:
        """Need nothing: the results of the target say it."""

    def clock_set(self, seconds: float) -> None:
        """Need nothing: a plan has no history."""

    def synced(self, summary: SyncSummary) -> None:
        """Need no summary."""


def print_plan(file: Path, names: Sequence[str], *, explain: bool, as_json: bool) -> int:
    """Plan the named targets, or all; return the exit code."""
    try:
        config = load(file, lambda: pod_namespace() or ANYWHERE)  # a plan needs no Lease
        targets = _chosen(config, names)
        results = _plan(config, targets)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except _UnknownTargetError as error:
        print(error, file=sys.stderr)
        return 2
    except ConnectError as error:
        print(f"autoscaler cannot plan: {error}", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps([record(result) for result in results], indent=2))
    elif not results:
        print(f"{file} names no targets")
    elif explain:
        print("\n\n".join(explain_result(result) for result in results))
    else:
        _print_table(results)
    return 1 if any(one.decision.outcome is Outcome.BLOCKED for one in results) else 0


class _UnknownTargetError(Exception):
    """A name on the command line that no target has."""


def _chosen(config: Config, names: Sequence[str]) -> tuple[Target, ...]:
    if not names:
        return config.targets
    by_name: dict[str, list[Target]] = {}
    for target in config.targets:
        short = f"{target.namespace}/{target.spec.scale_target_ref.name}"
        by_name.setdefault(short, []).append(target)
        by_name.setdefault(target.key, []).append(target)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        known = ", ".join(target.key for target in config.targets)
        raise _UnknownTargetError(f"no target is called {', '.join(unknown)}; there are: {known}")
    wanted = {target.key for name in names for target in by_name[name]}
    return tuple(target for target in config.targets if target.key in wanted)


def _plan(config: Config, targets: tuple[Target, ...]) -> list[SyncResult]:
    """Sync the chosen targets' namespaces, since selectors may overlap, and keep the chosen."""
    collector = Collector()
    namespaces = {target.namespace for target in targets}
    neighbours = [target for target in config.targets if target.namespace in namespaces]
    with (
        world_to_plan(config, neighbours, collector, _note) as world,
        Syncer(config.flags, world, threading.Event()) as syncer,
    ):
        syncer.sync(neighbours, clock.wall(), _PLAN_SECONDS)
    order = {target.key: index for index, target in enumerate(targets)}
    chosen = [result for result in collector.results if result.target.key in order]
    return sorted(chosen, key=lambda result: order[result.target.key])


def _note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr)


def _print_table(results: Sequence[SyncResult]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, justify in (
        ("TARGET", "left"),
        ("CURRENT", "right"),
        ("METRICS (value / target -> proposal)", "left"),
        ("STABILIZED", "right"),
        ("DESIRED", "right"),
        ("REASON", "left"),
    ):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type] # literals
    for result in results:
        decision = result.decision
        stabilized = decision.stabilization
        table.add_row(
            wording.target_key(result.target),
            "-" if decision.current is None else str(decision.current),
            _cell(_metric(one) for one in decision.metrics) or "-",
            "-" if stabilized is None else str(stabilized.after),
            "-" if decision.current is None else str(decision.desired),
            _reason(result),
        )
    # What servers say is text: their brackets are no markup, and `:car:` is no picture.
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        # A pipe has no width of its own; narrow columns would cut words that grep looks for.
        console.width = _PLAIN_WIDTH
    console.print(table)


def _metric(result: MetricResult) -> str:
    proposal = "failed" if result.proposal is None else str(result.proposal)
    return (
        f"{wording.metric_name(result.metric)}: {wording.usage(result)} / "
        f"{wording.target(result.metric)} -> {proposal}"
    )


def _reason(result: SyncResult) -> str:
    lines = [verdict(result)]
    limit = result.decision.limit
    if limit is not None and limit.before != limit.after:
        lines.append(f"{limit.reason}: {limit.before} -> {limit.after}")
    stabilization = result.decision.stabilization
    if stabilization is not None and stabilization.held_by is not None:
        lines.append(f"{stabilization.reason}: {stabilization.before} -> {stabilization.after}")
    lines += [
        f"{event.reason}: {event.message}"
        for event in result.decision.events
        if event.type == "Warning"
    ]
    return _cell(lines)


def _cell(lines: Iterable[str]) -> str:
    return "\n".join(printable(line, LONGEST_SENTENCE) for line in lines)
