"""All answers of the daemon: metrics, probes and histories; `Views` for the API and the pages."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from autoscaler.agreement.differences import counterpart_of
from autoscaler.agreement.sentences import agreement_answer, kept_of
from autoscaler.config import Config
from autoscaler.config.comparison import FieldChange
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.persistence.record.rows import RecordError
from autoscaler.rendering.answers import LeaderState, RecordState, TargetAgreement
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.telemetry.health import Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.telemetry.target_states import TargetFacts, TargetStates
from autoscaler.web.answering import AnswerPool, BusyError, Page

HISTORIES = "/api/v1/histories"
PROBES = frozenset({"/livez", "/healthz", "/readyz"})
OPEN = frozenset({"/metrics", *PROBES})
"""The paths at `listen` if `web.listen` is another address."""
RECORD_IS_OFF = "the record is off: `record` is null"

_MANY = 1000
"""Paths that wait for no others: a probe is always answered."""


@dataclass(frozen=True, slots=True)
class Views:
    """The daemon as the API and the pages show it; each part is read at each request.

    ``config`` is in force. ``record`` is None without a record; ``leaders`` returns the leader of
    each cluster, None without leader election.
    """

    states: TargetStates
    health: Health
    config: Callable[[], Config]
    record: DirectoryRecord | None
    breakers: Callable[[], Sequence[BreakerStatus]]
    leaders: Callable[[], Sequence[ClusterLeader] | None]

    def leads(self) -> bool | None:
        """Return whether this process leads a cluster; None without leader election."""
        leaders = self.leaders()
        return None if leaders is None else any(leader.leading for leader in leaders)

    def leader_states(self) -> tuple[LeaderState, ...] | None:
        """Return the leader of each cluster; None without leader election."""
        leaders = self.leaders()
        return None if leaders is None else tuple(map(LeaderState.model_validate, leaders))

    def agreements(
        self, targets: Iterable[TargetFacts], since: float, now: float
    ) -> tuple[TargetAgreement, ...]:
        """Return the agreement of targets with their HPAs since a Unix time; raises RecordError."""
        known = {state.target.key: state for state in targets}
        kept = kept_of(self.record, known, since, now)
        why = RECORD_IS_OFF if self.record is None else None
        if not (why or kept):
            why = self.record_state().problem
        return tuple(
            agreement_answer(
                key,
                kept.get(key),
                None if state.last is None else state.last.decision.hpa,
                state.target.extensions.mode.value,
                _differences(state),
                why or "",
            )
            for key, state in known.items()
        )

    def record_state(self) -> RecordState:
        """Return whether the record is on, its first and last instant, or why it is unreadable."""
        span, problem = None, None
        try:
            span = None if self.record is None else self.record.span()
        except RecordError as error:
            problem = str(error)
        begin, end = span or (None, None)
        return RecordState(on=self.record is not None, from_=begin, to=end, problem=problem)


def _differences(facts: TargetFacts) -> Sequence[FieldChange]:
    """Return the fields that differ between a target and its HPA."""
    last = facts.last
    if last is None or last.decision.hpa is None:
        return ()
    return counterpart_of(facts.target, last.flags, last.decision.hpa.spec).fields


ShownViews = Callable[[], Views | None]
"""Returns the views; None while the daemon starts."""


class Site:
    """Answers requests of programs. Thread-safe.

    ``views`` is for the API and the pages, ``history_lines`` returns the lines of the page of
    histories; both are None while the daemon starts.
    """

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self.history_lines: Callable[[], Iterator[bytes]] | None = None
        self.views: Views | None = None

    def page(self, path: str, accept: str) -> Page:
        """Return the page of a path without its query; ``accept`` is the Accept header."""
        if path == "/metrics":
            return Page(200, *self._metrics.page(accept), large=True)
        if path in {"/livez", "/healthz"}:
            stalled = self._health.stalled()
            return text_page(200, "ok") if stalled is None else text_page(503, stalled)
        if path == "/readyz":
            return self._readyz()
        if path != HISTORIES:
            return text_page(404, "there is no such page")
        if self.history_lines is None:
            return text_page(503, "the daemon starts, and has not read what it remembers yet")
        lines = self.history_lines()
        return Page(200, "application/x-ndjson", lines, large=True, streamed=True)

    def open_page(self, path: str, accept: str) -> Page:
        """Return the page of a path if pages and API have another address."""
        if path in OPEN:
            return self.page(path, accept)
        return text_page(404, "here are /metrics, /livez and /readyz; the rest is at web.listen")

    def _readyz(self) -> Page:
        ready, components = self._health.ready, self._health.components()
        body = {"ready": ready, "components": [component.document() for component in components]}
        text = json.dumps(body, indent=2) + "\n"
        return Page(200 if ready else 503, "application/json", [text.encode()])


def text_page(status: int, sentence: str) -> Page:
    """Return a page of one sentence."""
    return Page(status, "text/plain; charset=utf-8", [f"{sentence}\n".encode()])


def application(
    answer: Callable[[str, str], Page],
    on_fault: Callable[[BaseException], None],
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """Return the application: the ``routes``, and the result of ``answer`` for other paths.

    ``answer`` is called with the path and the Accept header, ``on_fault`` with exceptions of pages,
    which give status 500.
    """
    answering = AnswerPool(_MANY)

    def fault(_: Request, error: Exception) -> Response:
        on_fault(error)
        return PlainTextResponse("a fault; the log has it\n", 500)

    async def other_method(_: Request, __: Exception) -> Response:
        return PlainTextResponse("only GET and HEAD are answered\n", 501)

    async def page(request: Request) -> Response:
        path, accept = request.scope["path"], request.headers.get("accept", "")
        try:
            return await answering.answer(request, lambda: answer(path, accept))
        except BusyError as error:
            busy = text_page(503, str(error))
            return await answering.answer(request, lambda: busy)

    # The histories are below the API's path, but not part of it.
    return Starlette(
        routes=[Route(HISTORIES, page), *routes, Route("/{path:path}", page)],
        exception_handlers={405: other_method, Exception: fault},
    )
