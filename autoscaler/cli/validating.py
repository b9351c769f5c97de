"""`autoscaler validate`: checks files, and with --prometheus also their queries."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from functools import cache
from itertools import groupby
from pathlib import Path

from autoscaler import clock
from autoscaler.cli.asked_queries import (
    ExtensionUse,
    MetricUse,
    QueryPlace,
    QueryToCheck,
    queries_of,
)
from autoscaler.cli.cautions import cautions_on
from autoscaler.cli.object_files import ObjectReader, has_objects
from autoscaler.config import Config, ConfigError, KubernetesSettings, Problem, load
from autoscaler.config.conversion import CONTAINER, CONTAINERS, SERIES, STARTS
from autoscaler.config.exposure import warnings_of, warnings_of_access
from autoscaler.config.loading import ANYWHERE, namespace_or_anywhere, pod_namespace
from autoscaler.config.objects import KIND
from autoscaler.config.reading import MOST_OF_A_FILE
from autoscaler.core.observation import HOLD_QUERY, Gap, why_held
from autoscaler.core.readings import labels_text, read_bound, read_hold
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.text import printable
from autoscaler.daemon.connections import endpoint_of
from autoscaler.kubernetes import ConnectError
from autoscaler.prometheus import PrometheusReader
from autoscaler.quantities import format_milli
from autoscaler.rendering import wording
from autoscaler.rendering.no_series import Ask, coverage, values_of, why_no_series
from autoscaler.transport.retries import FOR_A_COMMAND

_STANDARD_INPUT = Path("-")
_SHOWN = Path("standard input")
"""The name in messages.  Included files are relative to the working directory."""
_AT_ONCE = 4
_MOST_USES = 3
"""The most metrics of one query that are printed."""

_MOST_WARNINGS = 20
_NOTE_SECONDS = 5.0
"""After this time without output, in seconds, a note says what is awaited."""


def validate_files(
    files: Sequence[Path],
    config: Path | None = None,
    *,
    ask_prometheus: bool = False,
    strict: bool = False,
) -> int:
    """Check every file, print all errors and warnings, and return the exit code.

    ``config`` decides what objects may use. ``ask_prometheus`` also sends the queries of each valid
    configuration; ``strict`` makes warnings errors.
    """

    @cache
    def reader() -> ObjectReader:
        return ObjectReader(None if config is None else load(config, namespace_or_anywhere))

    codes = {
        _validate(file, reader, ask_prometheus=ask_prometheus, strict=strict) for file in files
    }
    return max(codes, default=0)


def _validate(
    file: Path, reader: Callable[[], ObjectReader], *, ask_prometheus: bool, strict: bool
) -> int:
    try:
        content = _standard_input() if file == _STANDARD_INPUT else None
        path = file if content is None else _SHOWN
        if has_objects(path, content):
            objects = wording.counted(len(reader().targets(path, content)), KIND)
            print(f"{path}: valid, {objects}{reader().unchecked}", flush=True)
            return 0
        config = load(path, namespace_or_anywhere, content)
    except ConfigError as error:
        print(error, file=sys.stderr, flush=True)
        return 2
    print(f"{config.path}: valid, {_counted(config)}", flush=True)
    warnings = [
        f"{problem.file}:{problem.line}: warning: {problem.path}: {problem.message}"
        for problem in cautions_on(config, content)
    ]
    doubts, election = warnings_of(config), config.leader_election
    if election.enabled and election.namespace == ANYWHERE and pod_namespace() is None:
        it = "leaderElection.namespace defaults to the namespace of the daemon's pod"
        doubts = [f"{it}; outside of a pod `run` needs it", *doubts]
    for settings in config.connections.values():
        doubts += _access_warnings(settings)
    warnings += [f"{config.path}: warning: {doubt}" for doubt in doubts]
    for warning in warnings:
        print(warning, file=sys.stderr)
    code = ask_every_query(config, content, strict=strict) if ask_prometheus else 0
    return 2 if strict and warnings else code


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise ConfigError([Problem(str(_SHOWN), None, "", None, "it is closed")])
    if sys.stdin.isatty():
        print("reading standard input; Ctrl-D ends it", file=sys.stderr)
    # One byte more than permitted, so that more is refused as in a file.
    return sys.stdin.buffer.read(MOST_OF_A_FILE + 1)


def _access_warnings(settings: KubernetesSettings) -> list[str]:
    """Return the warnings about the kubeconfig that `run` would use, if any."""
    try:
        server = endpoint_of(settings)
    except ConnectError:
        return []
    return warnings_of_access(
        server.origin, server.secrets, url=server.url, verified=server.verified
    )


def _counted(config: Config) -> str:
    counted = wording.counted(len(config.targets), "target")
    files = len(config.sources.digests) + (config.path == _SHOWN)
    return counted if files == 1 else f"{counted} in {files} files"


# -- what Prometheus answers ---------------------------------------------------------------------


def ask_every_query(config: Config, content: bytes | None, *, strict: bool = False) -> int:
    """Send all queries of a valid configuration to Prometheus, and return the exit code.

    It is 2 if a query is refused, or with ``strict`` after a warning, 1 if a query has no answer,
    else 0. ``content`` is the main file's if it is standard input.
    """
    asked = queries_of(config, content)
    report = _Report(clock.wall())
    for server, queries in groupby(asked, lambda query: query.key.server):
        of_server = list(queries)
        promql = [query.key.promql for query in of_server]
        answers = _answers(config, server, promql)
        for query, (answer, ask) in zip(of_server, answers, strict=True):
            report.tell(query, answer, ask)
    return report.end(strict=strict)


class _Report:
    """Prints the answers query by query, and counts warnings and failures."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._unanswered: Counter[str] = Counter()
        self._refused = False
        self._warnings = 0

    def tell(
        self, query: QueryToCheck, answer: QueryResult | QueryFailure | None, ask: Ask
    ) -> None:
        """Print the answer to one query; None means that it was not sent."""
        if answer is None:
            self._unanswered[""] += 1
        elif isinstance(answer, QueryResult):
            self._answer(query, answer, ask)
        elif answer.refused:
            self._refused = True
            _complain(f"{_promql_text(query)}: {answer.message}")
        else:
            self._unanswered[answer.message] += 1
            if self._unanswered[answer.message] == 1:
                _complain(f"{_promql_text(query)}: no answer: {answer.message}")

    def end(self, *, strict: bool) -> int:
        """Print the counts, and return the exit code."""
        if self._warnings > _MOST_WARNINGS:
            _complain(f"these are {_MOST_WARNINGS} warnings, and more are not looked for")
        unanswered = self._unanswered.total()
        if unanswered > 1:
            _complain(f"{unanswered} queries have no answer")
        wrong = self._refused or (strict and self._warnings > 0)
        return 2 if wrong else 1 if unanswered else 0

    def _answer(self, query: QueryToCheck, answer: QueryResult, ask: Ask) -> None:
        called = f"Prometheus {query.key.server}".rstrip()
        for warning in answer.warnings:
            self._warn(query.place, f"{called} warned: {warning}")
        why = ""
        if answer.series:
            self._note_answer(query, answer)
            if twice := _duplicates(query, ask):
                self._warn(query.place, twice)
        elif query.uses and all(use.query.empty_is_zero for use in query.uses):
            print(f"{_promql_text(query)}: no series, which is 0 to the metrics that use it")
        elif query.uses or query.bounds or not query.holds:
            why = why_no_series(ask, query.key.promql)
            if query.uses or not (query.bounds or query.holds):
                self._warn(query.place, _empty(query, why))
        for bound in query.bounds:
            self._bound(bound, answer, why)
        for hold in query.holds[:_MOST_USES]:
            self._hold(hold, answer)
        if len(query.holds) > _MOST_USES:
            print(f"  and {len(query.holds) - _MOST_USES} more targets that it may hold")

    def _note_answer(self, query: QueryToCheck, answer: QueryResult) -> None:
        used = query.uses or query.bounds or query.holds
        unused = "" if used else "; no metric uses it"
        print(f"{_promql_text(query)}: {_summary(answer)}{unused}")
        for number, use in enumerate(query.uses):
            if number >= _MOST_USES and self._warnings > _MOST_WARNINGS:
                break
            found, faults = coverage(use.target, use.metric, use.query, answer, self._now)
            if number < _MOST_USES:
                print(f"  {_use_text(use)}: {found}")
            for fault in faults:
                self._warn(use.place, f"{_use_text(use)}: {fault}")
        if len(query.uses) > _MOST_USES:
            print(f"  and {len(query.uses) - _MOST_USES} more metrics")

    def _bound(self, use: ExtensionUse, answer: QueryResult, why: str) -> None:
        found = read_bound(use.query, answer, self._now)
        of = f"{wording.target_key(use.target)} {use.what}"
        if isinstance(found, Gap):
            self._warn(use.place, f"{of}: {found.detail}" + (f": {why}" if why else ""))
        else:
            print(f"  {of}: finds {format_milli(found.values[0])}")

    def _hold(self, use: ExtensionUse, answer: QueryResult) -> None:
        if use.target.hold is None:
            return
        found = read_hold(use.target.hold, answer, self._now)
        of = f"{wording.target_key(use.target)} {HOLD_QUERY}"
        if found.gap is not None:
            self._warn(use.place, f"{of}: {why_held(found)}")
        else:
            print(f"  {of}: {why_held(found) if found.holds else 'holds nothing now'}")

    def _warn(self, place: QueryPlace, sentence: str) -> None:
        self._warnings += 1
        if self._warnings <= _MOST_WARNINGS:
            _complain(f"{place.file}:{place.line}: warning: {place.path}: {sentence}")


def _complain(line: str) -> None:
    sys.stdout.flush()
    print(line, file=sys.stderr, flush=True)


def _promql_text(query: QueryToCheck) -> str:
    place, server = query.place, query.key.server
    at = f" at the server {server}" if server else ""
    return f"{place.file}:{place.line}: {place.path}{at}"


def _use_text(use: MetricUse) -> str:
    return f"{wording.target_key(use.target)} {use.metric.type} {wording.metric_name(use.metric)}"


def _empty(query: QueryToCheck, why: str) -> str:
    """Return the warning for a query without series: why, its users, what a built-in one needs."""
    users = ", ".join(_use_text(use) for use in query.uses[:_MOST_USES])
    more = len(query.uses) - _MOST_USES
    used = f"it is used by {users}" + (f" and {more} more metrics" if more > 0 else "")
    empty = "the query returned no series" + (f": {why}" if why else "")
    parts = [empty, used if users else "no metric uses it"]
    if query.built_in is not None:
        needs = (
            f"cAdvisor's {SERIES[query.built_in[0]]} with the labels namespace, pod and container"
        )
        parts.append(f"this built-in query needs {needs}")
    if any(use.default for use in query.uses):
        parts.append("a target without `metrics` has the HPA's default metric, cpu at 80 %")
    return "; ".join(parts)


def duplicates(name: str, labels: Sequence[str]) -> tuple[str, str]:
    """Return a query for the number of containers with several series, and one for such series.

    Series of a replaced container do not count.
    """
    by, starts = ", ".join(labels), f"{STARTS}{{{CONTAINERS}}}"
    replaced = f"{starts} <= on ({by}) group_left () (max by ({by}) ({starts}) - 1)"
    running = f"{name}{{{CONTAINERS}}} unless on ({by}, id, instance) ({replaced})"
    several = f"count by ({by}) ({running}) > 1"
    return f"count({several})", f"({running}) and on ({by}) topk(1, {several})"


def _duplicates(query: QueryToCheck, ask: Ask) -> str:
    """Return the warning for containers with several series of a built-in query; else empty."""
    if query.built_in is None:
        return ""
    resource, of_cluster = query.built_in
    name, labels = SERIES[resource], (*(name for name, _ in of_cluster), *CONTAINER)
    count, example = (ask(promql) for promql in duplicates(name, labels))
    if not isinstance(count, QueryResult) or not isinstance(example, QueryResult):
        return ""
    if not count.series or not example.series:
        return ""
    every = sorted({label for series in example.series for label in series.labels})
    different = [
        values_of(label, example)
        for label in every
        if len({series.labels.get(label) for series in example.series}) > 1
    ]
    of = {label: printable(example.series[0].labels.get(label, "")) for label in CONTAINER}
    return (
        f"{count.series[0].value:,.0f} containers have several series of {name}, such as "
        f"{of['container']} of pod {of['pod']} in namespace {of['namespace']}: "
        f"{'; '.join(different)}; each container counts once, or not at all where it is not known "
        "which series is right; scrape each kubelet once"
    )


def _summary(answer: QueryResult) -> str:
    first = answer.series[0]
    such = "" if len(answer.series) == 1 else "such as "
    return f"{len(answer.series):,} series, {such}{labels_text(first)} {first.value:.15g}"


def _answers(
    config: Config, server: str, queries: Sequence[str]
) -> Iterator[tuple[QueryResult | QueryFailure | None, Ask]]:
    """Send a few queries at a time to a server, and yield the answers in the order of the queries.

    With each comes a function for further questions, valid until the next answer. If the first few
    have no answer, the others are not sent: they yield None.
    """
    settings, stop = config.servers[server], threading.Event()
    name = f"Prometheus {server}".rstrip()
    reader = PrometheusReader(settings, stop, name=server, absent_seconds=FOR_A_COMMAND)

    def ask(promql: str) -> QueryResult | QueryFailure:
        return reader.query(promql, None, clock.monotonic() + settings.timeout)

    answered, done = False, 0
    with closing(reader), ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="query") as pool:
        try:
            for some in (queries[:_AT_ONCE], queries[_AT_ONCE:]):
                for future in [pool.submit(ask, promql) for promql in some]:
                    while not wait([future], _NOTE_SECONDS).done:
                        of = f"{done} of {len(queries)} queries are done"
                        _complain(f"waiting for {name} at {settings.url}: {of}")
                    answer, done = future.result(), done + 1
                    answered = answered or isinstance(answer, QueryResult) or answer.refused
                    yield answer, ask
                if not answered:
                    break
        finally:
            stop.set()  # Ctrl-C waits for nothing.
            pool.shutdown(wait=False, cancel_futures=True)
    left = () if answered else queries[_AT_ONCE:]
    yield from [(None, _nothing)] * len(left)


def _nothing(_: str) -> QueryFailure:
    return QueryFailure("the server does not answer")
