"""A reader for one test, and what it said."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from autoscaler import clock
from autoscaler.adapters.prometheus import PrometheusOptions, PrometheusReader
from autoscaler.adapters.prometheus.reader import MOST_BYTES
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.transport.memory import AnswerMemory


@contextmanager
def reading(
    where: str | PrometheusOptions,
    *,
    stop: threading.Event | None = None,
    most_bytes: int = MOST_BYTES,
    memory: AnswerMemory | None = None,
    on_retry: Callable[[str], None] = lambda _: None,
    **changes: object,
) -> Iterator[PrometheusReader]:
    """Give a reader of a URL or of options, with fields of the options changed."""
    options = PrometheusOptions(where) if isinstance(where, str) else where
    options = replace(options, **changes)  # type: ignore[arg-type]  # checked at run time
    reader = PrometheusReader(
        options,
        stop or threading.Event(),
        memory or AnswerMemory(most_bytes, parsed=200 << 20),
        on_retry=on_retry,
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
