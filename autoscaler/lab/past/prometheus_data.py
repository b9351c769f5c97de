"""What is known of the past by the Prometheus servers of a configuration, for rehearsals."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from typing_extensions import override

from autoscaler import clock
from autoscaler.cli.output import CommandError
from autoscaler.config import Config
from autoscaler.core.observation import PodRequests
from autoscaler.core.series import QueryFailure
from autoscaler.core.spec import MetricSpec
from autoscaler.core.target import Query, QueryKey, Target
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import RehearsalData
from autoscaler.lab.engine.loads import Totals, pods_in, totals_of_answers
from autoscaler.lab.engine.workloads import requests_of
from autoscaler.lab.past.own_pods import is_known_kind, kept_totals, of_own_pods
from autoscaler.lab.past.range_fetching import (
    FetchedRange,
    Progress,
    RangeFetcher,
    RangeReader,
    reader_for_ranges,
)
from autoscaler.lab.past.range_files import RangeFiles, identity_of
from autoscaler.lab.past.range_findings import ScannedQuery, scan_of, sentences_of
from autoscaler.lab.past.range_needs import (
    REPLICAS,
    REQUESTED,
    STARTED,
    TimeGrid,
    Wanted,
    needs_of,
    wanted_for,
)
from autoscaler.lab.past.ranges import Matrix, MatrixSeries
from autoscaler.persistence.temporary_folders import temporary_folder

_PREFIX = "autoscaler-ranges-"


@dataclass(frozen=True)
class PrometheusData(RehearsalData):
    """Data that are on disk: nothing is asked any more, and each call begins anew."""

    time: TimeGrid
    fetched: Mapping[tuple[QueryKey, str], FetchedRange]
    of_use: Mapping[str, FetchedRange]
    """By the name of the use, those of kube-state-metrics and of totals."""
    told: tuple[str, ...] = ()
    """What is odd about the data, in sentences."""

    @override
    def answers(self, query: QueryKey) -> Answers:
        return self.fetched[query, ""].answers(self.time)

    @override
    def reading(self, target: Target, number: int) -> Answers:
        """Return of the series those that the metric may select."""
        metric, query = target.spec.metrics[number], target.queries[number]
        fetched = self.fetched[query.key, ""]
        return fetched.answers(self.time, lambda matrix: selected(metric, query, matrix))

    @override
    def totals(self, target: Target, number: int) -> Totals:
        """Return totals; an average is of the pods of the count that ran."""
        if target.spec.metrics[number].of_pods:
            return kept_totals(self.of_use[f"{target.key} {number}"].answers(self.time))
        counts = self.ran(target) or (lambda _: _NOT_KNOWN)
        return totals_of_answers(self.reading(target, number), counts)

    @override
    def ran(self, target: Target) -> Answers | None:
        """Return that of the spec, by kube-state-metrics."""
        fetched = self.of_use.get(f"{REPLICAS} {target.key}")
        has = fetched is not None and any(
            isinstance(matrix, Matrix) and matrix.series for _, matrix in fetched.matrices()
        )
        return fetched.answers(self.time) if fetched is not None and has else None

    @override
    def replicas(self, target: Target) -> int | None:
        """Return that of the spec, by kube-state-metrics."""
        fetched = self.of_use.get(f"{REPLICAS} {target.key}")
        return None if fetched is None else pods_in(fetched.answers(self.time)(self.time.begin))

    @override
    def ready_seconds(self, target: Target) -> float | None:
        """Return the median of its pods, by kube-state-metrics."""
        took: dict[str, float] = {}
        for series, value in self._firsts(STARTED, target):
            if 0 <= value < math.inf:
                took.setdefault(series.labels.get("pod", ""), value)
        return median(took.values()) if took else None

    @override
    def requests(self, target: Target) -> PodRequests | None:
        """Return those of its first pod, by kube-state-metrics."""
        containers: dict[str, dict[str, int]] = defaultdict(dict)
        for series, value in self._firsts(REQUESTED, target):
            if math.isfinite(value):
                own = containers[series.labels.get("container", "")]
                own.setdefault(series.labels.get("resource", ""), round(value * 10**9))
        return requests_of(containers) if containers else None

    def _firsts(self, use: str, target: Target) -> Iterator[tuple[MatrixSeries, float]]:
        """Yield the series of each part with their first values, the earliest first."""
        fetched = self.of_use.get(f"{use} {target.key}")
        for _, matrix in () if fetched is None else fetched.matrices():
            if isinstance(matrix, Matrix):
                for series in sorted(matrix.series, key=lambda one: one.runs[0]):
                    yield series, series.values[0]


_NOT_KNOWN = QueryFailure(
    "of how many pods its value was an average is not known: kube-state-metrics has no"
    " replicas of the workload"
)


def selected(metric: MetricSpec, query: Query, matrix: Matrix) -> Matrix:
    """Return the series that a metric may read, which are few where a query is of many targets."""
    described, selector = metric.described_object, metric.selector
    if metric.of_pods:
        return matrix
    if described is None:
        if selector is None or selector.empty:
            return matrix
        kept = [one for one in matrix.series if selector.matches(one.labels)]
        return Matrix(kept, matrix.warnings)
    namespace = query.labels.namespace
    if described.kind == "Namespace" and not described.group:
        return matrix
    label = described.kind.lower()
    kept = [one for one in matrix.series if one.labels.get(label) == described.name]
    # Whether any series has the label of a namespace makes a difference, too.
    other = next((one for one in matrix.series if namespace in one.labels), None)
    if other is not None and not any(namespace in one.labels for one in kept):
        kept.append(other)
    return Matrix(kept, matrix.warnings)


@contextmanager
def prometheus_data(
    config: Config,
    targets: Sequence[Target],
    assumptions: Assumptions,
    time: TimeGrid,
    cache: Path | None,
    progress: Progress = lambda *_: None,
) -> Iterator[PrometheusData]:
    """Ask all that a rehearsal of the targets needs, and give it for as long as the block lasts.

    ``cache`` is a folder for what was asked, which is made; None keeps nothing.  What could not be
    read is a `QueryFailure` for its time.  Raises CommandError.
    """
    wanted = wanted_for(targets, config.flags, assumptions, time.begin)
    needs = needs_of(wanted, targets, time)
    asked = {need.query.server for need in needs}
    with ExitStack() as stack:
        readers = {
            name: RangeReader(stack.enter_context(closing(reader_for_ranges(settings, name))))
            for name, settings in config.servers.items()
            if name in asked
        }
        identities = {name: identity_of(config.servers[name]) for name in readers}
        kept = None if cache is None else _kept_files(cache, stack)
        try:
            own = RangeFiles(stack.enter_context(temporary_folder(_PREFIX)))
            fetcher = RangeFetcher(readers, identities, kept, own, clock.wall())
            fetched = fetcher.fetch(needs, progress)
        except OSError as error:
            raise CommandError(f"what was asked of Prometheus cannot be kept: {error}") from None
        scanned = list(_scanned(targets, wanted, fetched))
        of_use = {name: one for (_, name), one in fetched.items() if name}
        told = (*_told_of_pods(wanted), *_told_of_queries(scanned))
        yield PrometheusData(time, fetched, of_use, told)


def _kept_files(folder: Path, stack: ExitStack) -> RangeFiles:
    """Return the files of a folder, which gets no larger than it may be in the end."""
    try:
        files = RangeFiles(folder)
    except OSError as error:
        raise CommandError(
            f"what is asked of Prometheus cannot be kept in {folder}: {error.strerror}; name"
            " another folder with --cache, or keep nothing with --no-cache"
        ) from None
    stack.callback(files.prune)
    return files


# -- what is odd ---------------------------------------------------------------------------------


def _scanned(
    targets: Sequence[Target], wanted: Wanted, fetched: Mapping[tuple[QueryKey, str], FetchedRange]
) -> Iterator[ScannedQuery]:
    """Look at the samples of each metric, and of each other query, once."""
    seen: set[object] = set()
    for target in targets:
        for number, metric in enumerate(target.spec.metrics):
            query, of = target.queries[number], f"{target.key}: {metric.name}"
            if (target.key, number) in wanted.pods:
                asked = QueryKey(query.server, of_own_pods(query, target))
                own = fetched[asked, f"{target.key} {number}"]
                yield ScannedQuery(of, asked, own, scan_of(own))
            elif query.key in wanted.queries and target.metric_keys[number] not in seen:
                seen |= {target.metric_keys[number], query.key}
                own = fetched[query.key, ""]
                scan = scan_of(own, partial(selected, metric, query))
                yield ScannedQuery(of, query.key, own, scan, metric.described_object is not None)
        for query in target.all_queries:
            if query.key in wanted.queries and query.key not in seen:
                seen.add(query.key)
                own = fetched[query.key, ""]
                yield ScannedQuery(
                    target.key, query.key, own, scan_of(own), query in target.count_queries
                )
    for key in wanted.queries:
        if key not in seen:
            own = fetched[key, ""]
            yield ScannedQuery("what comes into a queue", key, own, scan_of(own))


def _told_of_pods(wanted: Wanted) -> Iterator[str]:
    """Say of each kind for which it is so that it is not known how its pods are named."""
    first_of: dict[str, Target] = {}
    for target in wanted.pods.values():
        if not is_known_kind(target):
            first_of.setdefault(target.spec.scale_target_ref.kind, target)
    for kind, target in first_of.items():
        yield (
            f"{target.key}: its pods are taken to be those whose names begin with"
            f" {target.spec.scale_target_ref.name}-: how a {kind} names them is not known"
        )


def _told_of_queries(scanned: Sequence[ScannedQuery]) -> list[str]:
    """Return what is odd about queries.  Raises CommandError if none of them has any data."""
    told = sentences_of((one, finding) for one in scanned for finding in one.findings())
    if scanned and not any(one.scan.samples for one in scanned):
        raise CommandError("\n".join(("there are no data to rehearse with:", *told)))
    return told
