"""The JSON of `/api/v1/query` -> a `QueryResult`.

Format: https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries
"""

import json
from collections.abc import Callable
from typing import TypedDict, cast

from autoscaler.adapters.prometheus.failures import (
    LONGEST_TEXT,
    REFUSED_TYPES,
    QueryError,
    prometheus_error,
)
from autoscaler.core.series import QueryResult, Series
from autoscaler.transport.redaction import Redactor

# Prometheus 2.48 to 2.53 sent its infos ("metric might not be a counter") among the warnings.
_INFO = "PromQL info:"

_TEXT = frozenset({str})
_LONGEST_START = 60
_LONGEST_TYPE = 40
_MOST_WARNINGS = 20
"""Of one answer; further ones add nothing."""
_LATEST = 253_402_300_799.0
"""The end of the year 9999: Prometheus' own clock is the source of every time."""


class _Element(TypedDict, total=False):
    """What the format promises; the conversion raises where the JSON is different."""

    metric: object
    value: object
    histogram: object


def document_of(
    subject: str, body: bytes, redactor: Redactor, parse: Callable[[bytes], object] = json.loads
) -> dict[str, object]:
    """Parse the body of an answer with status 200; raises QueryError if it is no success."""
    try:
        document = parse(body)
    except (ValueError, RecursionError):
        raise _unreadable(subject, body, redactor) from None
    if not isinstance(document, dict):
        raise _misshapen(subject, "the JSON is no object")
    if document.get("status") == "error":
        error_type, text = prometheus_error(redactor.error_body(body), redactor)
        refused = error_type in REFUSED_TYPES
        raise QueryError(f"Prometheus refused the query ({error_type}): {text}", refused=refused)
    return document


def answer_of(subject: str, document: dict[str, object], redactor: Redactor) -> QueryResult:
    """Convert a whole answer; raises QueryError for what is no vector or scalar of floats.

    Values of NaN and infinity are kept; a time that is NaN or infinite is an error.  A scalar
    becomes one series without labels.  `infos` are ignored: they say nothing about completeness.
    """
    data = document.get("data")
    if not isinstance(data, dict) or "resultType" not in data:
        raise _misshapen(subject, "data.resultType is missing")
    kind, result = data["resultType"], data.get("result")
    if kind not in {"vector", "scalar"}:
        article = (
            "an unknown type"
            if not isinstance(kind, str)
            else f"a {redactor.line(kind, _LONGEST_TYPE)}"
        )
        raise QueryError(
            f"the query returns {article}; a query must return an instant vector or a scalar",
            refused=True,
        )
    try:
        if kind == "scalar":
            series = [_sample({}, result)]
        else:
            series = [_series(element) for element in cast("list[_Element]", result)]
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        raise _misshapen(subject, f"the result is no {kind} of floats") from None
    warnings = _warnings(subject, document.get("warnings"), redactor)
    if document.get("isPartial") is True:
        # So VictoriaMetrics' cluster warns when a storage node is away.
        warnings += ("isPartial is true",)
    return QueryResult(series, warnings)


def _series(element: _Element) -> Series:
    if "value" not in element and "histogram" in element:
        raise QueryError(
            "the query returns native histograms, which are no numbers; histogram_quantile,"
            " histogram_sum and histogram_count make numbers of them",
            refused=True,
        )
    return _sample(element["metric"], element["value"])


def _sample(labels: object, sample: object) -> Series:
    if type(sample) is not list:
        raise TypeError
    timestamp, value = sample
    if (
        type(value) is not str
        or type(labels) is not dict
        or not _TEXT.issuperset(map(type, labels.values()))
    ):
        raise TypeError
    seconds = float(timestamp)
    if not 0.0 <= seconds <= _LATEST:  # this is also false for NaN, which Python's JSON reads
        raise ValueError
    return Series(labels, float(value), seconds)


def _warnings(subject: str, warnings: object, redactor: Redactor) -> tuple[str, ...]:
    if warnings is None:
        return ()
    if not isinstance(warnings, list):
        raise _misshapen(subject, "warnings is no list")
    serious = [text for text in warnings if not _is_info(text)]
    return tuple(redactor.line(str(text), LONGEST_TEXT) for text in serious[:_MOST_WARNINGS])


def _is_info(text: object) -> bool:
    return isinstance(text, str) and text.startswith(_INFO)


def _misshapen(subject: str, detail: str) -> QueryError:
    return QueryError(f"{subject} sent an answer that is not Prometheus' format: {detail}")


def _unreadable(subject: str, body: bytes, redactor: Redactor) -> QueryError:
    text = redactor.error_body(body).strip()
    if text.startswith(b"{") and not text.endswith(b"}"):
        # Cut on the way; the whole may arrive next time.
        return QueryError(f"{subject} sent JSON that breaks off", transient=True)
    if not text:
        return QueryError(f"{subject} sent an empty answer", transient=True)
    start = redactor.line(text[:200].decode("utf-8", "replace"), _LONGEST_START)
    return QueryError(f"{subject} sent an answer that is no JSON, it starts: {start}")
