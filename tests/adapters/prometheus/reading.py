"""A reader for one test, and what it said."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from autoscaler import clock
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.adapters.prometheus.reader import MOST_BYTES
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.transport.memory import AnswerMemory
from autoscaler.transport.observer import UNOBSERVED, Observer


class Observed(Observer):
    """Puts down the status of each request, and why each retry is made."""

    def __init__(self, statuses: list[str], failures: list[str] | None = None) -> None:
        self._statuses = statuses
        self._failures = [] if failures is None else failures

    def prometheus_request(self, server: str, status: str, seconds: float) -> None:  # noqa: ARG002 - the base's
        """Put it down."""
        self._statuses.append(status)

    def prometheus_sign_in_failed(self, server: str, sentence: str) -> None:  # noqa: ARG002 - the base's
        """Put down why there was no request."""
        self._statuses.append(sentence)

    def prometheus_retry(self, server: str, failure: str) -> None:  # noqa: ARG002 - the base's
        """Put it down."""
        self._failures.append(failure)


@contextmanager
def reading(
    where: str | PrometheusOptions,
    *,
    stop: threading.Event | None = None,
    most_bytes: int = MOST_BYTES,
    memory: AnswerMemory | None = None,
    observer: Observer = UNOBSERVED,
    **changes: object,
) -> Iterator[PrometheusReader]:
    """Give a reader of a URL or of options, with fields of the options changed."""
    options = PrometheusOptions(where) if isinstance(where, str) else where
    options = replace(options, **changes)  # type: ignore[arg-type]  # checked at run time
    reader = PrometheusReader(
        options,
        stop or threading.Event(),
        memory or AnswerMemory(most_bytes, parsed=200 << 20),
        observer=observer,
    )
    try:
        yield reader
    finally:
        reader.close()


def ask(
    where: str | PrometheusOptions, promql: str, *, within: float = 10.0, **changes: object
) -> QueryResult | QueryFailure:
    """Ask once with a reader of its own."""
    with reading(where, **changes) as reader:  # type: ignore[arg-type]  # checked at run time
        return reader.query(promql, clock.monotonic() + within)


def answered(outcome: QueryResult | QueryFailure) -> QueryResult:
    """Return the answer; anything else fails the test with the message."""
    assert isinstance(outcome, QueryResult), outcome
    return outcome


def failed(outcome: QueryResult | QueryFailure) -> str:
    """Return the failure's message; an answer fails the test."""
    assert isinstance(outcome, QueryFailure), outcome
    return outcome.message


def query_threads() -> list[threading.Thread]:
    """Return the threads that wait for answers now."""
    return [one for one in threading.enumerate() if one.name == "prometheus-query"]
