"""A real listener in this process with the real pages and API over a fleet."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autoscaler.adapters.record import DirectoryRecord
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.telemetry.health import Component, Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web import api, pages
from autoscaler.web.access import Guarded
from autoscaler.web.listener import Listener
from autoscaler.web.site import Site, Views, application
from tests.worlds.pages.fleets import Fleet
from tests.worlds.pages.playing import played
from tests.worlds.pages.recording import recorded

_MESSAGES = {
    Component.CONFIGURATION: "/etc/autoscaler/autoscaler.yaml is in force",
    Component.PROMETHEUS: "answers",
    Component.KUBERNETES: "answers",
    Component.CACHES: "every watch that is permitted has its objects",
    Component.STATE: "state is kept in /var/lib/autoscaler/autoscaler.db",
    Component.RECORD: "decisions are recorded in /var/lib/autoscaler/record.db",
}


@dataclass(frozen=True, slots=True)
class Served:
    """What is shown, and where."""

    fleet: Fleet
    views: Views
    url: str
    """Without a slash at its end."""


@contextmanager
def serving(fleet: Fleet) -> Iterator[Served]:
    """Serve a fleet after all of its syncs; fails for what a page has raised."""
    health = Health(wall=lambda: fleet.begin)
    for component, message in _MESSAGES.items():
        health.report(component, ok=True, message=message)
    health.expect({"every 15 s": 15.0} if fleet.players else {})
    metrics = Metrics(health)
    metrics.set_targets([player.target for player in fleet.players])
    with recorded(fleet.state, fleet) as recorder:
        for result in played(fleet.players, fleet.begin, fleet.begin + fleet.seconds):
            metrics.report(result)
            recorder.report(result)
    views = Views(
        states=metrics.states,
        health=health,
        config=lambda: fleet.config,
        record=DirectoryRecord(fleet.state),
        breakers=lambda: [BreakerStatus("", None, 0, len(fleet.players))],
        leads=lambda: None,
    )
    site, faults = Site(metrics, health), list[BaseException]()
    site.views = views
    routes = [*api.routes(lambda: views), *pages.routes(lambda: views)]
    app = Guarded(
        application(site.page, faults.append, routes),
        None,
        needs_certificate=False,
        with_metrics=True,
        sign_in_failed=lambda *_: None,
    )
    with Listener("127.0.0.1", 0, app, faults.append) as listener:
        yield Served(fleet, views, f"http://127.0.0.1:{listener.port}")
    assert not faults, faults
