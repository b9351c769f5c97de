"""The page about the daemon itself: its components, its syncs, and the leaders."""

import platform
from collections import Counter
from itertools import chain

from starlette.requests import Request

from autoscaler import __version__
from autoscaler.config import Config
from autoscaler.rendering import wording
from autoscaler.rendering.answers import ComponentState
from autoscaler.rendering.breaker import release_command
from autoscaler.telemetry.health import Component, part_of
from autoscaler.web.answering import Page
from autoscaler.web.pages.frame import page
from autoscaler.web.site import Views


def health_page(views: Views, request: Request, now: float) -> Page:  # noqa: ARG001 - as all pages
    """Make the page."""
    config, components = views.config(), views.health.components()
    return page(
        "health.html",
        views,
        now,
        current="health",
        ready=views.health.ready,
        stalled=views.health.stalled(),
        components=components,
        leaders=views.leader_states(),
        syncs=views.health.syncs(),
        targets_by_period=Counter(target.sync_period for target in config.targets),
        servers=_servers(config, views, components),
        has_breaker=config.breaker is not None,
        file=str(config.path),
        files=len(config.sources.digests),
        reload=next(
            (component for component in components if component.name == Component.RELOAD), None
        ),
        targets=len(config.targets),
        record=views.record_state(),
        versions=(("autoscaler", __version__), ("Python", platform.python_version())),
    )


def _servers(
    config: Config, views: Views, components: tuple[ComponentState, ...]
) -> list[dict[str, object]]:
    """Return the Prometheus servers; in the core the default one has an empty name."""
    asked = Counter(
        chain.from_iterable({query.server for query in t.all_queries} for t in config.targets)
    )
    states = {component.name: component for component in components}
    breakers = {breaker.server: breaker for breaker in views.breakers()}
    return [
        {
            "label": wording.server_label(name),
            "targets": asked[name],
            "state": states.get(part_of(Component.PROMETHEUS, name)),
            "breaker": breakers.get(name),
            "release": release_command(name),
        }
        for name in config.servers
    ]
