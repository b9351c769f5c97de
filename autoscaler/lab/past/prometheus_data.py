"""The past according to the Prometheus servers of a configuration, for replays."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import gt, lt
from pathlib import Path
from statistics import median

from typing_extensions import override

from autoscaler import clock
from autoscaler.cli.output import CommandError
from autoscaler.config import Config
from autoscaler.config.promql import selectors_of
from autoscaler.config.promql_parser import Call, nodes_of, read
from autoscaler.core.observation import PodRequests
from autoscaler.core.series import QueryFailure
from autoscaler.core.spec import MetricSpec
from autoscaler.core.target import Query, QueryKey, Target
from autoscaler.core.text import printable, rfc3339
from autoscaler.lab.engine.answers import Answers
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import ReplayData
from autoscaler.lab.engine.loads import Totals, pods_in, totals_of_answers
from autoscaler.lab.engine.workloads import requests_of
from autoscaler.lab.past.own_pods import PODS, is_known_kind, kept_totals, of_own_pods
from autoscaler.lab.past.range_fetching import (
    FetchedRange,
    Progress,
    RangeFetcher,
    RangeReader,
    reader_for_ranges,
)
from autoscaler.lab.past.range_files import RangeFiles, identity_of
from autoscaler.lab.past.range_needs import (
    REPLICAS,
    REQUESTED,
    STARTED,
    NeedCollector,
    TimeGrid,
    needs_of,
    wanted_for,
)
from autoscaler.lab.past.ranges import Matrix, MatrixSeries
from autoscaler.persistence.temporary_folders import temporary_folder

_LONGEST_QUERY = 120
_OF_COUNTERS = ("_total", "_count", "_sum", "_bucket")
_RATES = frozenset({"rate", "irate", "increase", "delta", "idelta", "deriv", "resets", "changes"})
_FEWEST_STEPS = 20
"""The least number of samples for a conclusion about a query."""
_MOST_SENTENCES = 20
_MOST_FAILURES = 3
"""The most different failures of a query that are reported."""


@dataclass
class Scan:
    """Statistics of a query's samples; instants are indexes of its grid."""

    samples: int = 0
    nans: int = 0
    steps: int = 0
    rises: int = 0
    falls: int = 0
    several: tuple[int, int] | None = None
    """The first instant with more than one series, and their number; None without one."""
    single: int | None = None
    """The first instant with exactly one series."""
    others: bool = False
    """Whether there were series that do not count."""
    failed: Counter[str] = field(default_factory=Counter)
    """Instants that could not be read, by the reason."""
    partial: Counter[str] = field(default_factory=Counter)
    """Instants of incomplete answers, by the first warning."""


def scan_of(
    fetched: FetchedRange, selects: Callable[[Matrix], Matrix] = lambda matrix: matrix
) -> Scan:
    """Return the statistics of all samples of a query, or of some of its series."""
    scan = Scan()
    for part, answer in fetched.matrices():
        if isinstance(answer, QueryFailure):
            scan.failed[answer.message] += part.end - part.begin
            continue
        matrix = selects(answer)
        scan.others |= len(matrix.series) < len(answer.series)
        if matrix.warnings:
            scan.partial[matrix.warnings[0]] += part.end - part.begin
        # The number of pods is not a value of the metric.
        for series in (candidate for candidate in matrix.series if candidate.labels != PODS):
            _take(scan, series)
        _count_series(scan, matrix)
    return scan


def _take(scan: Scan, series: MatrixSeries) -> None:
    scan.samples += len(series.values)
    scan.nans += sum(map(math.isnan, series.values))
    at = 0
    for _, count in series.runs:
        values = series.values[at : at + count]
        later = values[1:]
        scan.steps += len(later)
        scan.rises += sum(map(lt, values, later))
        scan.falls += sum(map(gt, values, later))
        at += count


def _count_series(scan: Scan, matrix: Matrix) -> None:
    """Note where there are one and several series; most queries have one throughout."""
    if scan.several is not None or not matrix.series:
        return
    if len(matrix.series) == 1:
        scan.single = matrix.series[0].runs[0][0] if scan.single is None else scan.single
        return
    counts: Counter[int] = Counter()
    for series in matrix.series:
        for begin, count in series.runs:
            counts.update(range(begin, begin + count))
    singles = [number for number, count in counts.items() if count == 1]
    if singles and scan.single is None:
        scan.single = min(singles)
    first = min((number for number, count in counts.items() if count > 1), default=None)
    scan.several = None if first is None else (first, counts[first])


@dataclass(frozen=True, slots=True)
class ScannedQuery:
    """A query, the request to its server, and the statistics of its samples.

    ``of`` is its use; ``needs_one`` is whether exactly one series is needed.
    """

    of: str
    asked: QueryKey
    fetched: FetchedRange
    scan: Scan
    needs_one: bool = False

    @property
    def name(self) -> str:
        """The description of the query in a sentence."""
        return f"{self.of}: the query {printable(self.asked.promql, _LONGEST_QUERY)}"

    def findings(self) -> Iterator[str]:
        """Yield anomalies, as sentences that follow the `name`."""
        yield from self._unread()
        scan, grid = self.scan, self.fetched.key.grid
        if not scan.samples and not scan.failed:
            parts = self.fetched.parts
            begin, end = rfc3339(grid.instant(parts[0].begin)), rfc3339(grid.instant(parts[-1].end))
            others = ": it gives series, and none of them is the metric's" if scan.others else ""
            yield f"has no data from {begin} to {end}{others}"
        if scan.nans:
            share = f"{100 * scan.nans / scan.samples:.3g} %"
            yield f"gives NaN in {share} of its samples, which are gaps"
        if self.needs_one and scan.several is not None:
            at, count = scan.several
            before = (
                f"one series at {rfc3339(grid.instant(scan.single))}, and " if scan.single else ""
            )
            yield (
                f"gives {before}{count} series at {rfc3339(grid.instant(at))}: exactly one"
                " is needed, and an instant with several is a gap"
            )
        if self._counts():
            yield "only rises, as a counter does: a load is its rate, such as rate(...[2m])"

    def _unread(self) -> Iterator[str]:
        step = self.fetched.key.grid.step / 1000
        for message, count in self.scan.failed.most_common(_MOST_FAILURES):
            yield f"could not be read for {count * step:g} s: {message}"
        for warning, count in self.scan.partial.most_common(_MOST_FAILURES):
            yield f"has incomplete answers for {count * step:g} s: {warning}"

    def _counts(self) -> bool:
        """Return whether the samples look like a counter's; a reset is a fall."""
        scan = self.scan
        nodes = nodes_of(read(self.asked.promql))
        if scan.steps < _FEWEST_STEPS or any(
            isinstance(n, Call) and n.name in _RATES for n in nodes
        ):
            return False
        names = [selector.name for selector in selectors_of(self.asked.promql)]
        named = any(name.endswith(_OF_COUNTERS) for name in names)
        most_falls = scan.steps / 100 if named else 0
        return scan.rises >= scan.steps / 3 and scan.falls <= most_falls


def sentences_of(found: Iterable[tuple[ScannedQuery, str]]) -> list[str]:
    """Return anomalies of queries, at most 20 sentences; equal ones only once.

    The sentences of a query follow its name.
    """
    names: dict[str, list[str]] = {}
    for query, finding in found:
        names.setdefault(finding, []).append(query.name)
    told = []
    for finding, (first, *others) in islice(names.items(), _MOST_SENTENCES):
        more = f" ({len(others)} more queries do as well)" if others else ""
        told.append(f"{first} {finding}{more}")
    more_notes = len(names) - _MOST_SENTENCES
    return [*told, *([f"and {more_notes} more notes"] if more_notes > 0 else [])]


_PREFIX = "autoscaler-ranges-"


@dataclass(frozen=True)
class PrometheusData(ReplayData):
    """Data on disk: nothing more is fetched, and each call starts again."""

    time: TimeGrid
    fetched: Mapping[tuple[QueryKey, str], FetchedRange]
    of_use: Mapping[str, FetchedRange]
    """By the name of the use: answers of kube-state-metrics and totals."""
    told: tuple[str, ...] = ()
    """Anomalies of the data, as sentences."""

    @override
    def answers(self, query: QueryKey) -> Answers:
        return self.fetched[query, ""].answers(self.time)

    @override
    def reading(self, target: Target, number: int) -> Answers:
        """Return the series that the metric may select."""
        metric, query = target.spec.metrics[number], target.queries[number]
        fetched = self.fetched[query.key, ""]
        return fetched.answers(self.time, lambda matrix: selected(metric, query, matrix))

    @override
    def totals(self, target: Target, number: int) -> Totals:
        """Return totals; an average is over the pods of the actual count."""
        if target.spec.metrics[number].of_pods:
            return kept_totals(self.of_use[f"{target.key} {number}"].answers(self.time))
        counts = self.ran(target) or (lambda _: _NOT_KNOWN)
        return totals_of_answers(self.reading(target, number), counts)

    @override
    def ran(self, target: Target) -> Answers | None:
        """Return the spec's count, from kube-state-metrics."""
        fetched = self.of_use.get(f"{REPLICAS} {target.key}")
        has = fetched is not None and any(
            isinstance(matrix, Matrix) and matrix.series for _, matrix in fetched.matrices()
        )
        return fetched.answers(self.time) if fetched is not None and has else None

    @override
    def replicas(self, target: Target) -> int | None:
        """Return the spec's count at the begin, from kube-state-metrics."""
        fetched = self.of_use.get(f"{REPLICAS} {target.key}")
        return None if fetched is None else pods_in(fetched.answers(self.time)(self.time.begin))

    @override
    def ready_seconds(self, target: Target) -> float | None:
        """Return the median over its pods, from kube-state-metrics."""
        took: dict[str, float] = {}
        for series, value in self._firsts(STARTED, target):
            if 0 <= value < math.inf:
                took.setdefault(series.labels.get("pod", ""), value)
        return median(took.values()) if took else None

    @override
    def requests(self, target: Target) -> PodRequests | None:
        """Return the requests of its first pod, from kube-state-metrics."""
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
                for series in sorted(matrix.series, key=lambda candidate: candidate.runs[0]):
                    yield series, series.values[0]


_NOT_KNOWN = QueryFailure(
    "it is not known how many pods its average was over: kube-state-metrics has no replicas "
    "of the workload"
)


def selected(metric: MetricSpec, query: Query, matrix: Matrix) -> Matrix:
    """Return the series that a metric may read, which are few if a query is of many targets."""
    described, selector = metric.described_object, metric.selector
    if metric.of_pods:
        return matrix
    if described is None:
        if selector is None or selector.empty:
            return matrix
        kept = [series for series in matrix.series if selector.matches(series.labels)]
        return Matrix(kept, matrix.warnings)
    namespace = query.labels.namespace
    if described.kind == "Namespace" and not described.group:
        return matrix
    label = described.kind.lower()
    kept = [series for series in matrix.series if series.labels.get(label) == described.name]
    # Whether any series has a namespace label matters, too.
    other = next((series for series in matrix.series if namespace in series.labels), None)
    if other is not None and not any(namespace in series.labels for series in kept):
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
    """Fetch everything that a replay of the targets needs, and keep it during the block.

    ``cache`` is a folder for answers, created if needed; None keeps nothing. What could not be read
    is a `QueryFailure` for its time. Raises CommandError.
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
        of_use = {name: value for (_, name), value in fetched.items() if name}
        told = (*_told_of_pods(wanted), *_told_of_queries(scanned))
        yield PrometheusData(time, fetched, of_use, told)


def _kept_files(folder: Path, stack: ExitStack) -> RangeFiles:
    """Return the files of a folder, which does not exceed its limit at the end."""
    try:
        files = RangeFiles(folder)
    except OSError as error:
        raise CommandError(
            f"what is asked of Prometheus cannot be kept in {folder}: {error.strerror}; name"
            " another folder with --cache, or keep nothing with --no-cache"
        ) from None
    stack.callback(files.prune)
    return files


# -- anomalies -------------------------------------------------------------------------------------


def _scanned(
    targets: Sequence[Target],
    wanted: NeedCollector,
    fetched: Mapping[tuple[QueryKey, str], FetchedRange],
) -> Iterator[ScannedQuery]:
    """Return the statistics of each metric and each other query, once."""
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
            yield ScannedQuery("the arrivals of a queue", key, own, scan_of(own))


def _told_of_pods(wanted: NeedCollector) -> Iterator[str]:
    """Yield a note for each kind of workload whose way to name its pods is unknown."""
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
    """Return anomalies of queries. Raises CommandError if none of them has any data."""
    told = sentences_of((query, finding) for query in scanned for finding in query.findings())
    if scanned and not any(query.scan.samples for query in scanned):
        raise CommandError("\n".join(("there are no data to replay with:", *told)))
    return told
