"""`autoscaler validate --prometheus`: asks every query once, and prints what the metrics find."""

import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from itertools import groupby

from autoscaler import clock
from autoscaler.adapters.prometheus import PrometheusReader
from autoscaler.cli.coverage import Coverage, coverage
from autoscaler.config import Config, PrometheusSettings
from autoscaler.config.queries import (
    SERIES_OF,
    AskedQuery,
    BoundUse,
    MetricUse,
    QueryPlace,
    queries_of,
)
from autoscaler.core.numbers import saturate64
from autoscaler.core.observation import Gap
from autoscaler.core.quantity import format_milli
from autoscaler.core.readings import labels_text, read_bound
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.daemon.wiring import prometheus_reader
from autoscaler.rendering import wording

_AT_ONCE = 4
_MOST_USES = 3
"""The most metrics of one query that are printed."""

_MOST_WARNINGS = 20
_NOTE_AFTER, _NOTE_EVERY = 2.0, 10.0
"""Seconds."""


def ask_every_query(config: Config, content: bytes | None) -> int:
    """Ask the Prometheus servers of a valid configuration, and return the exit code.

    It is 2 if a query is refused, 1 if one has no answer, else 0.  ``content`` is that of the
    main file if it is standard input.
    """
    asked = queries_of(config, content)
    report = _Report(clock.wall())
    for server, queries in groupby(asked, lambda one: one.key.server):
        of_server = list(queries)
        promql = [one.key.promql for one in of_server]
        for query, answer in zip(of_server, _answers(config, server, promql), strict=True):
            report.tell(query, answer)
    return report.end()


class _Report:
    """Prints the answers query by query, and counts warnings and failures."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._unanswered: Counter[str] = Counter()
        self._refused = False
        self._warnings = 0

    def tell(self, query: AskedQuery, answer: QueryResult | QueryFailure | None) -> None:
        """Print the answer to one query; None means that it was not asked."""
        if answer is None:
            self._unanswered[""] += 1
        elif isinstance(answer, QueryResult):
            self._answer(query, answer)
        elif answer.refused:
            self._refused = True
            _complain(f"{_shown(query)}: {answer.message}")
        else:
            self._unanswered[answer.message] += 1
            if self._unanswered[answer.message] == 1:
                _complain(f"{_shown(query)}: no answer: {answer.message}")

    def end(self) -> int:
        """Print the counts, and return the exit code."""
        if self._warnings > _MOST_WARNINGS:
            _complain(f"these are {_MOST_WARNINGS} warnings, and more are not looked for")
        unanswered = self._unanswered.total()
        if unanswered > 1:
            _complain(f"{unanswered} queries have no answer")
        return 2 if self._refused else 1 if unanswered else 0

    def _answer(self, query: AskedQuery, answer: QueryResult) -> None:
        for warning in answer.warnings:
            self._warn(query.place, f"{_called(query)} warned: {warning}")
        if answer.series:
            self._found(query, answer)
        elif query.uses and all(use.query.empty_is_zero for use in query.uses):
            print(f"{_shown(query)}: no series, which is 0 to the metrics that use it")
        elif query.uses or not query.bounds:
            self._warn(query.place, _empty(query))
        for bound in query.bounds:
            self._bound(bound, answer)

    def _found(self, query: AskedQuery, answer: QueryResult) -> None:
        """Print what came back, and what each metric finds in it."""
        unused = "" if query.uses or query.bounds else "; no metric uses it"
        print(f"{_shown(query)}: {_summary(answer)}{unused}")
        for number, use in enumerate(query.uses):
            if number >= _MOST_USES and self._warnings > _MOST_WARNINGS:
                break
            found = coverage(use.target, use.metric, use.query, answer, self._now)
            if number < _MOST_USES:
                print(f"  {_of(use)}: {_finds(found, answer)}")
            for fault in found.faults:
                self._warn(use.place, f"{_of(use)}: {fault}")
        if len(query.uses) > _MOST_USES:
            print(f"  and {len(query.uses) - _MOST_USES} more metrics")

    def _bound(self, use: BoundUse, answer: QueryResult) -> None:
        """Print what a bound would be, or why its query gives none."""
        found = read_bound(use.query, answer, self._now)
        of = f"{wording.target_key(use.target)} {use.bound}"
        if isinstance(found, Gap):
            self._warn(use.place, f"{of}: {found.detail}")
        else:
            print(f"  {of}: finds {format_milli(found.values[0])}")

    def _warn(self, place: QueryPlace, sentence: str) -> None:
        self._warnings += 1
        if self._warnings <= _MOST_WARNINGS:
            _complain(f"{place.file}:{place.line}: warning: {place.path}: {sentence}")


def _complain(line: str) -> None:
    """Print to standard error, after everything on standard output."""
    sys.stdout.flush()
    print(line, file=sys.stderr, flush=True)


def _shown(query: AskedQuery) -> str:
    place, server = query.place, query.key.server
    at = f" at the server {server}" if server else ""
    return f"{place.file}:{place.line}: {place.path}{at}"


def _called(query: AskedQuery) -> str:
    return f"Prometheus {query.key.server}".rstrip()


def _of(use: MetricUse) -> str:
    return f"{wording.target_key(use.target)} {use.metric.type} {wording.metric_name(use.metric)}"


def _empty(query: AskedQuery) -> str:
    """Return the warning for a query without series: its users, and what a built-in one needs."""
    users = ", ".join(_of(use) for use in query.uses[:_MOST_USES])
    more = len(query.uses) - _MOST_USES
    used = f"it is used by {users}" + (f" and {more} more metrics" if more > 0 else "")
    parts = ["the query returned no series", used if users else "no metric uses it"]
    series = SERIES_OF.get(query.key.promql)
    if series is not None:
        needs = f"cAdvisor's {series} with the labels namespace, pod and container"
        parts.append(f"this built-in query needs {needs}")
    if any(use.default for use in query.uses):
        parts.append("a target without `metrics` has the HPA's default metric, cpu at 80 %")
    return "; ".join(parts)


def _summary(answer: QueryResult) -> str:
    first = answer.series[0]
    such = "" if len(answer.series) == 1 else "such as "
    return f"{len(answer.series):,} series, {such}{labels_text(first)} {first.value:.15g}"


def _finds(found: Coverage, answer: QueryResult) -> str:
    if found.empty:
        return "finds no series, counted as 0 (empty: zero)"
    if not found.used:
        return "finds no value that counts" if found.valueless else "finds nothing"
    if isinstance(found.used, int):
        return f"finds {found.used:,} {'pod' if found.used == 1 else 'pods'}"
    total = format_milli(saturate64(sum(found.used)))
    nans = f"; {found.nans} NaN, counted as 0 (nan: zero)" if found.nans else ""
    sum_of = "their sum is " if len(found.used) > 1 else ""
    return f"finds {len(found.used):,} of {len(answer.series):,} series, {sum_of}{total}{nans}"


def _answers(
    config: Config, server: str, queries: Sequence[str]
) -> Iterator[QueryResult | QueryFailure | None]:
    """Ask a server a few queries at a time, and yield the answers in the order of the queries.

    If the first few have no answer, the others are not asked: they yield None.
    """
    left, waiting = deque(queries), deque[Future[QueryResult | QueryFailure]]()
    settings = config.servers[server]
    note = _Note(f"Prometheus {server}".rstrip(), settings.url, len(queries))
    done, answered = 0, False
    with _asking(settings, server) as (reader, pool):
        while left or waiting:
            while left and len(waiting) + (0 if answered else done) < _AT_ONCE:
                deadline = clock.monotonic() + settings.timeout
                waiting.append(pool.submit(reader.query, left.popleft(), deadline))
            if not waiting:
                break
            answer = note.wait(waiting.popleft(), done)
            done, answered = done + 1, answered or _is_answer(answer)
            yield answer
    yield from [None] * len(left)


def _is_answer(answer: QueryResult | QueryFailure) -> bool:
    """Return whether the server answered; a refusal is an answer."""
    return isinstance(answer, QueryResult) or answer.refused


@contextmanager
def _asking(
    settings: PrometheusSettings, server: str
) -> Iterator[tuple[PrometheusReader, ThreadPoolExecutor]]:
    stop = threading.Event()
    with (
        closing(prometheus_reader(settings, stop, name=server)) as reader,
        ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="query") as pool,
    ):
        try:
            yield reader, pool
        finally:
            stop.set()  # at Ctrl-C nothing is waited for


class _Note:
    """Prints that answers are awaited, if that takes long."""

    def __init__(self, called: str, url: str, queries: int) -> None:
        self._server = f"{called} at {url}"
        self._queries = queries
        self._next = clock.monotonic() + _NOTE_AFTER

    def wait(
        self, future: Future[QueryResult | QueryFailure], done: int
    ) -> QueryResult | QueryFailure:
        """Wait for an answer, and print the progress from time to time."""
        while not future.done():
            wait([future], timeout=max(0.0, self._next - clock.monotonic()))
            if not future.done() and clock.monotonic() >= self._next:
                self._next = clock.monotonic() + _NOTE_EVERY
                of = f"{done} of {self._queries} queries are done"
                _complain(f"waiting for {self._server}: {of}")
        return future.result()
