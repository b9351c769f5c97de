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
from autoscaler.transport.parsing import memory_of
from autoscaler.transport.redaction import Hiding

# Prometheus 2.48 to 2.53 sent its infos ("metric might not be a counter") among the warnings.
_INFO = "PromQL info:"

_TEXT = frozenset({str})
_LONGEST_START = 60
_LONGEST_TYPE = 40
_MOST_WARNINGS = 20
"""More say no more."""
_LATEST = 253_402_300_799.0
"""The end of the year 9999: Prometheus' own clock is the source of every time."""


class _Element(TypedDict, total=False):
    """What the format promises; where the JSON is otherwise, conversion raises: the check."""

    metric: object
    value: object
    histogram: object


def document_of(
    subject: str, body: bytes, hiding: Hiding, admit: Callable[[int], object] = lambda _: None
) -> dict[str, object]:
    """Parse the body of an answer with status 200; raises QueryError if it is no success.

    ``admit`` is told before how many bytes that takes at most, and may raise.
    """
    try:
        admit(memory_of(body))
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _unreadable(subject, body, hiding) from None
    if not isinstance(document, dict):
        raise _misshapen(subject, "the JSON is no object")
    if document.get("status") == "error":
        error_type, text = prometheus_error(hiding.refusal(body), hiding)
        refused = error_type in REFUSED_TYPES
        raise QueryError(f"Prometheus refused the query ({error_type}): {text}", refused=refused)
    return document


def answer_of(subject: str, document: dict[str, object], hiding: Hiding) -> QueryResult:
    """Convert a whole answer; raises QueryError for what is no vector or scalar of floats.

    Values of NaN and infinity stay as they are, in their order, but a time of that kind is
    no answer; a scalar becomes one series without labels.  `infos` say nothing of completeness
    and are left out.
    """
    data = document.get("data")
    if not isinstance(data, dict) or "resultType" not in data:
        raise _misshapen(subject, "data.resultType is missing")
    kind, result = data["resultType"], data.get("result")
    if kind not in {"vector", "scalar"}:
        article = (
            "an unknown type"
            if not isinstance(kind, str)
            else f"a {hiding.said(kind, _LONGEST_TYPE)}"
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
    warnings = _warnings(subject, document.get("warnings"), hiding)
    if document.get("isPartial") is True:
        # VictoriaMetrics' cluster warns so, and by default answers although a store is away.
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
    if not 0.0 <= seconds <= _LATEST:  # so is NaN, which JSON of Python's reads
        raise ValueError
    return Series(labels, float(value), seconds)


def _warnings(subject: str, warnings: object, hiding: Hiding) -> tuple[str, ...]:
    if warnings is None:
        return ()
    if not isinstance(warnings, list):
        raise _misshapen(subject, "warnings is no list")
    serious = [text for text in warnings if not _is_info(text)]
    return tuple(hiding.said(str(text), LONGEST_TEXT) for text in serious[:_MOST_WARNINGS])


def _is_info(text: object) -> bool:
    return isinstance(text, str) and text.startswith(_INFO)


def _misshapen(subject: str, detail: str) -> QueryError:
    return QueryError(f"{subject} sent an answer that is not Prometheus' format: {detail}")


def _unreadable(subject: str, body: bytes, hiding: Hiding) -> QueryError:
    text = hiding.refusal(body).strip()
    if text.startswith(b"{") and not text.endswith(b"}"):
        # Something on the way cut it; the whole may arrive next time.
        return QueryError(f"{subject} sent JSON that breaks off", transient=True)
    if not text:
        return QueryError(f"{subject} sent an empty answer", transient=True)
    start = hiding.said(text[:200].decode("utf-8", "replace"), _LONGEST_START)
    return QueryError(f"{subject} sent an answer that is no JSON, it starts: {start}")
