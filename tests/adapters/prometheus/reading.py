"""A reader for one test, and what it said."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from pydantic import SecretStr

from autoscaler import clock
from autoscaler.config.prometheus_connection import BasicAuth, PrometheusSettings, Tls
from autoscaler.core.series import QueryFailure, QueryResult
from autoscaler.prometheus import PrometheusReader, answers
from autoscaler.prometheus.reader import MOST_BYTES
from autoscaler.transport import UNOBSERVED, Observer
from autoscaler.transport.answers import AnswerMemory
from autoscaler.transport.network_errors import Kind
from autoscaler.transport.retries import RequestFailure

SIGN_INS = ("oauth2", "google_iam", "azuread", "sigv4")


class Observed(Observer):
    """Puts down the status of each request, and why each retry is made."""

    def __init__(self, statuses: list[str], failures: list[str] | None = None) -> None:
        self._statuses = statuses
        self._failures = [] if failures is None else failures

    def prometheus_request(self, server: str, status: str, seconds: float) -> None:  # noqa: ARG002 - the base's
        self._statuses.append(status)

    def prometheus_sign_in_failed(self, server: str, sentence: str) -> None:  # noqa: ARG002 - the base's
        self._statuses.append(sentence)

    def prometheus_retry(self, server: str, failure: str) -> None:  # noqa: ARG002 - the base's
        self._failures.append(failure)


def settings(
    url: str, *, sign_in: str = "", headers: Mapping[str, str] | None = None, **fields: object
) -> PrometheusSettings:
    """Return settings that nothing has checked, except ``sign_in``, which is YAML.

    Fields of `tls` are given like the others.
    """
    fields |= {
        name: Path(value)
        for name, value in fields.items()
        if name.endswith("_file") and isinstance(value, str)
    }
    if sign_in:
        given = yaml.safe_load(sign_in)
        checked = PrometheusSettings.model_validate({"url": "http://127.0.0.1", **given})
        fields |= {name: getattr(checked, name) for name in SIGN_INS}
    own = {name: fields.pop(name) for name in Tls.model_fields if name in fields}
    secret = {name: SecretStr(value) for name, value in (headers or {}).items()}
    return PrometheusSettings.model_construct(
        url=url,
        tls=Tls.model_construct(**own),  # type: ignore[arg-type]  # checked at run time
        headers=secret,
        **fields,  # type: ignore[arg-type]  # as above
    )


def basic_auth(username: str, file: Path) -> BasicAuth:
    return BasicAuth.model_construct(username=username, password_file=file)


@contextmanager
def reading(
    where: str | PrometheusSettings,
    *,
    stop: threading.Event | None = None,
    most_bytes: int = MOST_BYTES,
    memory: AnswerMemory | None = None,
    observer: Observer = UNOBSERVED,
    most_tries: int | None = None,
    absent_seconds: float | None = None,
    **changes: object,
) -> Iterator[PrometheusReader]:
    """Give a reader of settings, or of a URL and other fields of them."""
    url = str(changes.pop("url", where))
    reader = PrometheusReader(
        settings(url, **changes) if isinstance(where, str) else where,  # type: ignore[arg-type]
        stop or threading.Event(),
        memory or AnswerMemory(most_bytes, parsed=200 << 20),
        observer=observer,
        most_tries=most_tries,
        absent_seconds=absent_seconds,
    )
    try:
        yield reader
    finally:
        reader.close()


def ask(
    where: str | PrometheusSettings, promql: str, *, within: float = 10.0, **changes: object
) -> QueryResult | QueryFailure:
    """Ask once with a reader of its own."""
    with reading(where, **changes) as reader:  # type: ignore[arg-type]  # checked at run time
        return query(reader, promql, within=within)


def query(
    reader: PrometheusReader, promql: str = "x", *, within: float = 10.0, at: float | None = None
) -> QueryResult | QueryFailure:
    return reader.query(promql, at, clock.monotonic() + within)


def answered(outcome: QueryResult | QueryFailure) -> QueryResult:
    assert isinstance(outcome, QueryResult), outcome
    return outcome


def failed(outcome: QueryResult | QueryFailure) -> str:
    assert isinstance(outcome, QueryFailure), outcome
    return outcome.message


def failure_of(where: str, *, within: float = 10.0, **changes: object) -> RequestFailure:
    """Ask once with a reader of its own; return why there is no answer."""
    with reading(where, **changes) as reader:  # type: ignore[arg-type]  # checked at run time
        until = clock.monotonic() + within
        outcome = reader.ask("query", {"query": "x"}, answers.answer_of, until)
    assert isinstance(outcome, RequestFailure), outcome
    return outcome


def network_sentence(kind: Kind, subject: str, **values: str) -> str:
    """Return the message for a kind of network error."""
    values = {"host": "", "reason": "", "within": "", **values}
    return answers._SENTENCES[kind].format(subject=subject, **values)


def query_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prometheus-query"]
