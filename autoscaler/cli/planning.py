"""`autoscaler plan`: one sync that writes nothing, as text, an explanation or JSON."""

import json
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoscaler import clock
from autoscaler.cli.asked_queries import MetricUse, queries_of
from autoscaler.cli.object_files import load_with_objects
from autoscaler.cli.output import EXPLAINED_FROM, CommandError, print_text
from autoscaler.cli.target_names import chosen_targets
from autoscaler.config import Config
from autoscaler.config.conversion import is_built_in
from autoscaler.config.documents import path_of
from autoscaler.core.decision import Calculation, MetricResult, Outcome
from autoscaler.core.observation import LONGEST_SENTENCE, Gap, GapKind, ReadFailure
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.step import step_of
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import QueryKey, Target
from autoscaler.core.text import printable
from autoscaler.daemon.client import Daemon
from autoscaler.daemon.connections import ports_to_plan
from autoscaler.daemon.remembered import PageError, RestoredHistories, remembered, tripped
from autoscaler.kubernetes import ConnectError
from autoscaler.kubernetes.rights import HPAS
from autoscaler.rendering import target_rules, wording
from autoscaler.rendering.explanation import explain as explain_result
from autoscaler.rendering.hpa import hpa_text
from autoscaler.rendering.no_series import Findings, missing_in, of_target
from autoscaler.rendering.reasons import verdict
from autoscaler.rendering.record import QuerySource, whole
from autoscaler.sync.ports import MetricsReader, Reporter
from autoscaler.sync.run import Syncer
from autoscaler.transport import Observer

_Findings = Mapping[str, Sequence[str]]
"""By target: which series exist if one of its queries found none."""

_INDENT = "  "
_PLAN_SECONDS = 30.0
_FINDINGS_SECONDS = 10.0


class Collector(Reporter):
    """Keeps every result."""

    def __init__(self) -> None:
        self.results: list[SyncResult] = []

    def report(self, result: SyncResult) -> None:
        """Keep one result."""
        self.results.append(result)


def print_plan(
    file: Path,
    names: Sequence[str] = (),
    daemon: Daemon | None = None,
    objects: Sequence[Path] | None = None,
    *,
    explain: bool = False,
    as_json: bool = False,
) -> int:
    """Plan the named targets, or all, and return the exit code.

    The histories of ``daemon`` are used; None means to look for a daemon.
    """
    config = load_with_objects(file, objects)
    targets = chosen_targets(config.targets, names)
    try:
        known = remembered(config, daemon) if targets else RestoredHistories()
        if as_json and targets:
            _note(known.describe(targets))
        results, findings, may_write = _plan(config, targets, known)
    except (ConnectError, PageError) as error:
        raise CommandError(f"autoscaler cannot plan: {error}") from None
    if as_json:
        told = [whole(*source).document() for source in _with_sources(config, results, findings)]
        print(json.dumps(told, indent=2))
    elif not results:
        more = "; name files of objects with --objects" if config.objects.enabled else ""
        print(f"{file} names no targets{more}")
    elif explain:
        parts = [known.describe(targets)]
        for source, sources, found in _with_sources(config, results, findings):
            parts.append("\n  ".join((explain_result(source, sources, str(config.path)), *found)))
        print_text("\n\n".join(parts), EXPLAINED_FROM)
    else:
        print_text(f"{known.describe(targets)}\n\n{paragraphs(results, findings)}")
    blocked = any(result.decision.outcome is Outcome.BLOCKED for result in results)
    return 1 if blocked or not may_write else 0


def _with_sources(
    config: Config, results: Sequence[SyncResult], findings: _Findings
) -> Iterator[tuple[SyncResult, Sequence[QuerySource], Sequence[str]]]:
    """Yield results with the sources of their queries, and existing series if some found none."""
    sources = query_sources(config)
    for result in results:
        yield result, sources[result.target.key], findings.get(result.target.key, ())


def query_sources(
    config: Config, content: bytes | None = None
) -> Mapping[str, tuple[QuerySource, ...]]:
    """Return by target the source of each metric's query; this reads the files again.

    Objects are not read again. ``content`` is the content of the main file, as for `load`.
    """
    found = {
        (use.target.key, use.number): QuerySource(
            printable(_source_name(use, query.place.path)), default=use.default
        )
        for query in queries_of(config, content)
        for use in query.uses
    }
    own = QuerySource("its PromqlAutoscaler")
    return {
        target.key: tuple(found.get((target.key, i), own) for i in range(len(target.queries)))
        for target in config.targets
    }


def _source_name(use: MetricUse, place: str) -> str:
    """Return the name of a query; ``place`` is the first place of its PromQL, a named one first."""
    if use.own:
        return "its own query"
    key, name = use.name
    if key == "resourceQueries" and is_built_in(name, use.query):
        return f"the built-in query of {name}"
    return place if place.startswith("prometheus.servers") else path_of((key, name))


def _plan(
    config: Config, targets: Sequence[Target], known: RestoredHistories
) -> tuple[list[SyncResult], _Findings, bool]:
    """Sync all targets of the namespaces, since selectors may overlap; return the named ones.

    Only queries of the named ones are sent. Also returns, by target, which series exist if a query
    found none, and whether a daemon with these credentials may write.
    """
    collector = Collector()
    places = {target.place for target in targets}
    neighbours = [target for target in config.targets if target.place in places]
    with ports_to_plan(config, targets, collector, _Notes()) as (ports, others, lacking):
        asked = {query.key for target in targets for query in target.all_queries}
        servers = {query.server for target in neighbours for query in target.all_queries}
        only = {name: _SelectedQueries(name, asked, ports.metrics.get(name)) for name in servers}
        asking = replace(ports, metrics=only)
        stop = threading.Event()
        with Syncer(config.flags, asking, stop, known=known.histories) as syncer:
            syncer.sync(neighbours, clock.wall(), _PLAN_SECONDS)
        by_key = {result.target.key: result for result in collector.results}
        results = [by_key[target.key] for target in targets]
        lacked = lacking()
        forbidden = [text for listed in others.values() for text in listed.forbidden]
        named = any(right.resource == HPAS for right in lacked)
        for sentence in (*(right.sentence for right in lacked), *(() if named else forbidden)):
            _note(sentence)
        findings = _findings(results, ports.metrics)
        holds = {name: trip.until for name, trip in tripped(config, clock.wall()).items()}
        results = [unless_held(result, holds) for result in results]
        writes = any(not result.decision.in_shadow for result in results)
        refused = writes and any(right.prevents_writes for right in lacked)
        return results, findings, not refused


def _findings(results: Sequence[SyncResult], metrics: Mapping[str, MetricsReader]) -> _Findings:
    """Return by target which series exist if its queries found none; takes a limited time."""
    until = clock.monotonic() + _FINDINGS_SECONDS
    findings = Findings(lambda server, promql: metrics[server].query(promql, None, until))
    found: dict[str, list[str]] = {}
    for result in results:
        if result.given is not None:
            missing = missing_in(result.target, result.given.observation)
            sentences = of_target([(use, findings.text_of(use)) for use in missing], missing)
            found |= {result.target.key: sentences} if sentences else {}
    return found


def unless_held(result: SyncResult, holds: Mapping[str, float]) -> SyncResult:
    """Return a result after the scale-down breakers that hold (`Step.held_back`)."""
    if not holds or result.given is None:
        return result
    step = step_of(result.rules, result.inputs)
    held = step.held_back(holds)
    return result if held is step else replace(result, decision=held.decision, write=None)


@dataclass(frozen=True, slots=True)
class _SelectedQueries:
    """Sends some queries to a server, and no others."""

    server: str
    asked: Collection[QueryKey]
    reader: MetricsReader | None

    def query(self, promql: str, at: float | None, deadline: float) -> QueryResult | QueryFailure:
        """Return the answer to a query of the plan, and a failure for any other query."""
        if self.reader is None or QueryKey(self.server, promql) not in self.asked:
            return QueryFailure("it is not asked, since no target of the plan uses it")
        return self.reader.query(promql, at, deadline)


class _Notes(Observer):
    """Reports what the plan waits for, once per server, and what it cannot list."""

    def __init__(self) -> None:
        self._told: dict[str | None, object] = {}
        """The failures by Prometheus server, and of the API server."""

    def prometheus_retry(self, server: str, failure: str) -> None:
        self._tell(server, failure)

    def kubernetes_retry(self, failure: str) -> None:
        self._tell(None, failure)

    def _tell(self, server: str | None, failure: str) -> None:
        first = object()
        if self._told.setdefault(server, first) is first:  # Called by any thread.
            _note(f"{failure}; it is tried again")

    def watch_changed(self, ok: bool, sentence: str) -> None:  # noqa: ARG002, FBT001 - the base's
        _note(sentence)


def _note(sentence: str) -> None:
    print(f"note: {sentence}", file=sys.stderr, flush=True)


# -- the text ------------------------------------------------------------------------------------

_Failures = Mapping[str, str]
"""The names of failures that several targets have, by their texts."""


def paragraphs(results: Sequence[SyncResult], findings: Mapping[str, Sequence[str]] = {}) -> str:
    """Return each target's decision; targets that one common failure blocks share a paragraph."""
    failures = _common(results)
    blocked: dict[str, list[SyncResult]] = defaultdict(list)
    others: list[str] = []
    for result in results:
        cause, key = _only_cause(result), result.target.key
        if cause in failures:
            blocked[cause].append(result)
        else:
            lines = (*_lines(result, failures), *findings.get(key, ()))
            others.append(_paragraph(result, lines))
    parts = [
        "\n".join((f"{name}: {cause}", *_blocked(blocked[cause])))
        for cause, name in failures.items()
    ]
    return "\n\n".join(parts + others)


def _common(results: Sequence[SyncResult]) -> _Failures:
    """Name the failures of servers that several targets share, in the order of appearance.

    Others, such as a query without series, may only have the same text.
    """
    counts = Counter(cause for result in results for cause in _of_servers(result))
    common = [cause for cause, count in counts.items() if count > 1]
    return {cause: f"failure {number}" for number, cause in enumerate(common, 1)}


def _of_servers(result: SyncResult) -> set[str]:
    scale, found = result.decision.scale, set[str]()
    if isinstance(scale, ReadFailure):
        found.add(printable(scale.message, LONGEST_SENTENCE))
    for metric in result.decision.metrics:
        if isinstance(metric.reading, Gap) and metric.reading.kind is GapKind.ERROR:
            found.add(_cause(metric))
    return found


def _cause(metric: MetricResult) -> str:
    """Return why a metric failed, without the metric's name; empty if it did not."""
    if isinstance(metric.outcome, Calculation):
        return ""
    detail = metric.reading.detail if isinstance(metric.reading, Gap) else metric.outcome.message
    return printable(detail, LONGEST_SENTENCE)


def _only_cause(result: SyncResult) -> str:
    """Return the one cause for which nothing at all was decided; empty without one."""
    causes = _of_servers(result) | {_cause(metric) for metric in result.decision.metrics}
    blocked = result.decision.outcome is Outcome.BLOCKED and result.decision.held_until is None
    return causes.pop() if blocked and len(causes) == 1 else ""


def _blocked(results: Sequence[SyncResult]) -> Iterator[str]:
    if results:
        targets = wording.counted(len(results), "target")
        yield f"{_INDENT}nothing can be decided for {targets}:"
    for result in results:
        current = result.decision.current
        stays = "" if current is None else f", stays at {wording.counted(current, 'replica')}"
        yield f"{_INDENT}{wording.target_key(result.target)}{stays}"


def _paragraph(result: SyncResult, lines: Sequence[str]) -> str:
    decision = result.decision
    move = "" if decision.current is None else f"  {decision.current} -> {decision.desired}"
    told = lines if decision.hpa is None else [hpa_text(decision.hpa), *lines]
    shown = [_INDENT + printable(line, LONGEST_SENTENCE) for line in told]
    return "\n".join((f"{wording.target_key(result.target)}{move}", *shown))


def _lines(result: SyncResult, failures: _Failures) -> Iterator[str]:
    sentence = verdict(result)
    yield _short(sentence, failures)
    for metric in result.decision.metrics:
        if not _is_told(metric, sentence):
            yield _short(_metric_text(metric), failures)


def _is_told(metric: MetricResult, sentence: str) -> bool:
    """Return whether a sentence is about this metric's failure, and no other."""
    cause = _cause(metric)
    if not cause or cause not in sentence:
        return False
    if f"{wording.metric_name(metric.metric)}: {cause}" in sentence:
        return True
    return metric.fallback is not None and target_rules.fallback(metric) in sentence


def _short(text: str, failures: _Failures) -> str:
    for cause, name in failures.items():
        text = text.replace(cause, name)
    return text


def _metric_text(metric: MetricResult) -> str:
    name = wording.metric_name(metric.metric)
    outcome = metric.outcome
    if not isinstance(outcome, Calculation):
        instead = "" if metric.fallback is None else f"; {target_rules.fallback(metric)}"
        return f"{name}: could not be used: {_cause(metric)}{instead}"
    usage, of_request = wording.usage_and_target(metric), wording.usage_and_request(metric)
    made_of = "" if of_request is None else f" ({' of '.join(of_request)} a pod on average)"
    active = "" if metric.activity is None else f", {wording.ACTIVITY_WORDS[metric.activity]}"
    asks = f"asks for {wording.counted(outcome.proposal, 'replica')}"
    return f"{name}: {usage}{made_of} {asks}{active}"
