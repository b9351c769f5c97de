"""`autoscaler plan`: one sync that writes nothing, as text, an explanation or JSON."""

import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoscaler import clock
from autoscaler.adapters.cluster import ConnectError
from autoscaler.adapters.daemon import Daemon
from autoscaler.cli.plan_text import paragraphs
from autoscaler.cli.query_sources import query_sources
from autoscaler.cli.target_names import UnknownTargetError, chosen
from autoscaler.cli.wrapping import EXPLAINED_FROM, print_text
from autoscaler.config import Config, ConfigError, load
from autoscaler.config.loading import namespace_or_anywhere
from autoscaler.core.breaker import Trip, goes_down, held_back
from autoscaler.core.decision import Outcome
from autoscaler.core.history import History
from autoscaler.core.observation import Scale, Unchecked
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.target import Target
from autoscaler.daemon.remembered import PageError, Remembered, remembered, tripped
from autoscaler.daemon.wiring import ports_to_plan
from autoscaler.rendering.explanation import explain as explain_result
from autoscaler.rendering.record import whole
from autoscaler.sync.ports import MetricsReader, SyncResult, SyncSummary
from autoscaler.sync.syncer import Syncer
from autoscaler.transport.observer import Observer

_PLAN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of `plan`.  No ``names`` means all targets.

    ``daemon`` is the one whose histories are used; None means to look for one.
    """

    names: Sequence[str] = ()
    explain: bool = False
    as_json: bool = False
    daemon: Daemon | None = None


class Collector:
    """A `Reporter` that keeps every result."""

    def __init__(self) -> None:
        self.results: list[SyncResult] = []

    def report(self, result: SyncResult) -> None:
        """Keep one result."""
        self.results.append(result)

    def fault(self, error: BaseException) -> None:
        """Do nothing: the result of the target says it."""

    def clock_set(self, seconds: float) -> None:
        """Do nothing: a plan takes a moment."""

    def synced(self, summary: SyncSummary) -> None:
        """Do nothing: a plan prints the results."""


def print_plan(file: Path, options: PlanOptions) -> int:
    """Plan the named targets, or all, and return the exit code."""
    try:
        config = load(file, namespace_or_anywhere)  # a plan needs no Lease
        targets = _named(config, options.names)
        known = remembered(config, options.daemon) if targets else Remembered()
        if options.as_json and targets:
            _note(known.told(targets))
        results = _plan(config, targets, known)
    except (ConfigError, UnknownTargetError) as error:
        print(error, file=sys.stderr)
        return 2
    except (ConnectError, PageError) as error:
        print(f"autoscaler cannot plan: {error}", file=sys.stderr)
        return 1
    if options.as_json:
        sources = query_sources(config)
        records = [whole(result, sources[result.target.key]) for result in results]
        print(json.dumps(records, indent=2))
    elif not results:
        print(f"{file} names no targets")
    elif options.explain:
        sources = query_sources(config)
        told = [explain_result(one, sources[one.target.key], str(file)) for one in results]
        print_text("\n\n".join((known.told(targets), *told)), EXPLAINED_FROM)
    else:
        print_text(f"{known.told(targets)}\n\n{paragraphs(results)}")
    return 1 if any(one.decision.outcome is Outcome.BLOCKED for one in results) else 0


def _named(config: Config, names: Sequence[str]) -> tuple[Target, ...]:
    keys = chosen(names, [target.key for target in config.targets])
    return tuple(target for target in config.targets if target.key in keys)


def _plan(config: Config, targets: Sequence[Target], known: Remembered) -> list[SyncResult]:
    """Sync all targets of the namespaces, since selectors may overlap; return the named ones.

    Only what the named ones use is asked for.
    """
    collector = Collector()
    namespaces = {target.namespace for target in targets}
    neighbours = [target for target in config.targets if target.namespace in namespaces]
    with ports_to_plan(config, targets, collector, _Notes()) as (ports, others):
        asking = replace(ports, metrics=_only_of(targets, neighbours, ports.metrics))
        stop = threading.Event()
        with Syncer(config.flags, asking, stop, known=known.histories) as syncer:
            syncer.sync(neighbours, clock.wall(), _PLAN_SECONDS)
        by_key = {result.target.key: result for result in collector.results}
        results = [by_key[target.key] for target in targets]
        for index, result in enumerate(results):
            if isinstance(result.decision.scale, Scale):
                seen = others.controller(
                    result.target.namespace, result.target.spec.scale_target_ref
                )
                history = known.histories.get(result.target.key, History())
                results[index] = replace(result, controller=controller_of(seen, history))
        trips = tripped(config, clock.wall())
        return [unless_held(one, trips) for one in results]


def unless_held(result: SyncResult, trips: Mapping[str, Trip]) -> SyncResult:
    """Return a result as the scale-down breakers leave it that hold, by server (semantics 8.7)."""
    held = [
        (trips[name].until, name)
        for name in {query.server for query in result.target.all_queries}
        if name in trips
    ]
    if not held or not goes_down(result.decision):
        return result
    until, server = max(held)
    decision, _ = held_back(result.decision, History(), History(), server, until)
    return replace(result, decision=decision, write=None)


@dataclass(frozen=True, slots=True)
class _Only:
    """Asks a server some queries, and no others."""

    asked: Collection[str]
    reader: MetricsReader | None

    def query(self, promql: str, deadline: float) -> QueryResult | QueryFailure:
        """Fit `MetricsReader`."""
        if self.reader is None or promql not in self.asked:
            return QueryFailure("it is not asked, since no target of the plan uses it")
        return self.reader.query(promql, deadline)


def _only_of(
    targets: Sequence[Target], neighbours: Sequence[Target], metrics: Mapping[str, MetricsReader]
) -> Mapping[str, MetricsReader]:
    """Return readers for the queries of all these targets that ask only those of ``targets``."""
    asked: dict[str, set[str]] = {
        query.server: set() for target in neighbours for query in target.all_queries
    }
    for target in targets:
        for query in target.all_queries:
            asked[query.server].add(query.promql)
    return {name: _Only(promql, metrics.get(name)) for name, promql in asked.items()}


class _Notes(Observer):
    """Says what the plan waits for, once for each server, and what it cannot list."""

    def __init__(self) -> None:
        self._prometheus = defaultdict[str, Callable[[str], None]](_once)
        self._kubernetes = _once()

    def prometheus_retry(self, server: str, failure: str) -> None:
        self._prometheus[server](failure)

    def kubernetes_retry(self, failure: str) -> None:
        self._kubernetes(failure)

    def watch_changed(self, ok: bool, sentence: str) -> None:  # noqa: ARG002, FBT001 - the base's
        _note(sentence)


def controller_of(seen: str | Unchecked | None, history: History) -> str:
    """Return in words which other autoscaler controls a target, empty for none.

    Where that cannot be checked, the daemon still heeds the one that it knew last.
    """
    if isinstance(seen, Unchecked):
        if not history.controller:
            return ""
        return f"{history.controller} (as last known; it cannot be checked now: {seen.message})"
    return seen or ""


def _once() -> Callable[[str], None]:
    """Return a function that prints a note about its first call only."""
    told = threading.Lock()

    def tell(failure: str) -> None:
        if told.acquire(blocking=False):
            _note(f"{failure}; it is tried again")

    return tell


def _note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr, flush=True)
