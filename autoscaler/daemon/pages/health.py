"""The page about the daemon itself: what it needs, its syncs, and who leads."""

import platform
from collections import Counter
from dataclasses import dataclass
from itertools import chain

from starlette.requests import Request

from autoscaler import __version__
from autoscaler.config import Config
from autoscaler.daemon.exposition.views import RECORD_IS_OFF, Views
from autoscaler.daemon.health import REQUIRED, Component, ComponentState, component_of
from autoscaler.daemon.pages.answering import Html, frame
from autoscaler.daemon.pages.templating import render
from autoscaler.record.rows import RecordError
from autoscaler.rendering import breaker_words, wording
from autoscaler.sync.breakers import BreakerStatus

NO_RECORD = f"No decisions are recorded: {RECORD_IS_OFF}."


@dataclass(frozen=True, slots=True)
class _Server:
    """A Prometheus server, whose name in the core is empty for the default one."""

    label: str
    targets: int
    state: ComponentState | None
    breaker: BreakerStatus | None
    release: str


def health_page(views: Views, request: Request, now: float) -> Html:  # noqa: ARG001 - as all pages
    """Make the page."""
    config, components = views.config(), views.health.components()
    sentence, span = _record(views)
    text = render(
        "health.html",
        ready=views.health.ready,
        stalled=views.health.stalled(),
        components=components,
        required=REQUIRED,
        leads=views.leads(),
        syncs=views.health.syncs(),
        targets_by_period=Counter(one.sync_period for one in config.targets),
        servers=_servers(config, views, components),
        has_breaker=config.breaker is not None,
        file=str(config.path),
        files=len(config.sources.digests),
        reload=next((one for one in components if one.name == Component.RELOAD), None),
        targets=len(config.targets),
        record_sentence=sentence,
        span=span,
        versions=(("autoscaler", __version__), ("Python", platform.python_version())),
        **frame(views, now, "health"),
    )
    return Html(text)


def _servers(config: Config, views: Views, components: tuple[ComponentState, ...]) -> list[_Server]:
    asked = Counter(
        chain.from_iterable({one.server for one in t.all_queries} for t in config.targets)
    )
    states = {one.name: one for one in components}
    breakers = {one.server: one for one in views.breakers()}
    return [
        _Server(
            wording.server_label(name),
            asked[name],
            states.get(component_of(name)),
            breakers.get(name),
            breaker_words.command(name),
        )
        for name in config.servers
    ]


def _record(views: Views) -> tuple[str, tuple[float, float] | None]:
    if views.record is None:
        return NO_RECORD, None
    try:
        span = views.record.span()
    except RecordError as error:
        return f"The record cannot be read: {error}", None
    return ("Decisions are recorded." if span else "Nothing is recorded yet."), span
