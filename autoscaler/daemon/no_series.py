"""Finds out, independently of syncs, why queries of targets find no series, and reports it."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, islice
from typing import Self

from autoscaler import clock
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.core.sync_result import SyncResult
from autoscaler.core.target import QueryKey
from autoscaler.rendering.no_series import Findings, MissingSeries, missing_in, of_target
from autoscaler.sync.ports import MetricsReader, Reporter
from autoscaler.token_bucket import TokenBucket

_MOST_WAITING = 2000
"""The most targets that wait for an investigation; further ones are skipped."""
_QUERIES, _REFILL_SECONDS = 20, 30.0
"""The burst of investigated queries, and the seconds per further query: an outage of Prometheus'
scraping affects all queries at once."""
_BATCH_SECONDS = 1.0
"""How long after the first target further ones with possibly the same query are awaited."""
_QUESTION_SECONDS = 5.0
_MOST_LINES = 20
"""The most log lines for causes that began together; each target still has its own cause."""


class NoSeriesReporter(Reporter):
    """Asks Prometheus about targets whose queries find nothing, on its own thread.

    ``found`` receives a target's key and which series exist, and an empty text when it is over;
    ``told`` a sentence and the keys of all targets that it concerns; ``fault`` a defect.
    """

    def __init__(
        self,
        found: Callable[[str, str], None],
        told: Callable[[str, Sequence[str]], None],
        fault: Callable[[BaseException], None],
        *,
        batch_seconds: float = _BATCH_SECONDS,
    ) -> None:
        self._found = found
        self._told = told
        self._fault = fault
        self._batch_seconds = batch_seconds
        self._readers: Mapping[str, MetricsReader] = {}
        self._missing: dict[str, tuple[MissingSeries, ...]] = {}
        """By target: what it lacks since that began."""
        self._waiting: deque[str] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._bucket = TokenBucket(_QUERIES, _REFILL_SECONDS)
        self._thread = threading.Thread(target=self._run, name="no-series", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ask nothing more; a running query ends by itself."""
        self._stop.set()
        self._wake.set()

    def use(self, readers: Mapping[str, MetricsReader]) -> None:
        """Ask these servers from now on; missing series are investigated again."""
        with self._lock:
            self._readers = readers
            self._missing.clear()
            self._waiting.clear()

    def report(self, result: SyncResult) -> None:
        """Queue a target that begins to lack series, and forget one that no longer does."""
        key, inputs = result.target.key, result.given
        missing = () if inputs is None else missing_in(result.target, inputs.observation)
        if not missing and key not in self._missing:
            return
        with self._lock:
            before = self._missing.pop(key, ())
            if missing:
                self._missing[key] = missing
            if missing == before:
                return
            self._found(key, "")
            if missing and len(self._waiting) < _MOST_WAITING:
                self._waiting.append(key)
                self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._stop.wait(self._batch_seconds)
            self._wake.clear()
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - scaling continues without it
                self._fault(error)

    def _look(self) -> None:
        """Process all waiting targets, query by query, so that each query is sent once."""
        with self._lock:
            missing = {key: self._missing.get(key, ()) for key in self._waiting}
            self._waiting.clear()
        uses = [(key, use) for key, of_each in missing.items() for use in of_each]
        findings, found = Findings(self._ask), dict[str, list[tuple[MissingSeries, str]]]()
        told: dict[str, list[str]] = {}
        for _, same in groupby(sorted(uses, key=_query_of), _query_of):
            if self._stop.is_set() or not self._bucket.take(clock.monotonic()):
                break
            for key, use in same:
                if sentence := findings.text_of(use):
                    found.setdefault(key, []).append((use, sentence))
                    told.setdefault(f"{use.what}: {sentence}", []).append(key)
        with self._lock:
            for key, of_this in found.items():
                if self._missing.get(key) == missing[key]:
                    self._found(key, "; ".join(of_target(of_this, missing[key])))
        for sentence, keys in islice(told.items(), _MOST_LINES):
            self._told(sentence, keys)

    def _ask(self, server: str, promql: str) -> QueryResult | QueryFailure:
        reader = self._readers.get(server)
        if reader is None or self._stop.is_set():
            return QueryFailure("it is not asked any more")
        return reader.query(promql, None, clock.monotonic() + _QUESTION_SECONDS)


def _query_of(use: tuple[str, MissingSeries]) -> QueryKey:
    return use[1].query.key
