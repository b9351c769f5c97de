"""A real listener in this process with the real pages and API over a fleet."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from autoscaler.core.spec import Flags
from autoscaler.daemon.recording import Recorder
from autoscaler.persistence.record import DirectoryRecord, RecordWriter, SyncRow
from autoscaler.persistence.record.agreement import AgreementInterval
from autoscaler.persistence.record.file import open_file
from autoscaler.sync.breakers import BreakerStatus
from autoscaler.telemetry.health import Component, Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web import api, pages
from autoscaler.web.access import AccessGuard
from autoscaler.web.listener import Listener
from autoscaler.web.site import Site, Views, application
from tests.worlds.pages.fleets import Fleet
from tests.worlds.pages.playing import played

_MESSAGES = {
    Component.CONFIGURATION: "/etc/autoscaler/autoscaler.yaml is in force",
    Component.PROMETHEUS: "answers",
    Component.KUBERNETES: "answers",
    Component.CACHES: "every watch listed",
    Component.STATE: "/var/lib/autoscaler/autoscaler.db",
    Component.RECORD: "/var/lib/autoscaler/record.db",
}


_ROWS = 1000
"""Of one transaction of the record, as the daemon's."""


@dataclass(frozen=True, slots=True)
class Served:
    """A served fleet and its address."""

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
    metrics.states.set_targets([player.target for player in fleet.players])
    fleet.state.mkdir(parents=True, exist_ok=True)
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
        leaders=lambda: fleet.leaders,
    )
    site, faults = Site(metrics, health), list[BaseException]()
    site.views = views
    routes = [*api.routes(lambda: views), *pages.routes(lambda: views)]
    app = AccessGuard(
        application(site.page, faults.append, routes),
        None,
        needs_certificate=False,
        with_metrics=True,
        sign_in_failed=lambda *_: None,
    )
    with Listener("127.0.0.1", 0, app, faults.append) as listener:
        yield Served(fleet, views, f"http://127.0.0.1:{listener.port}")
    assert not faults, faults


@contextmanager
def recorded(directory: Path, fleet: Fleet) -> Iterator[Recorder]:
    """Give what records and compares a fleet's results; at the end all is in a real file.

    No thread writes it, and nothing is lost.
    """
    rows: list[SyncRow] = []
    stretches: list[tuple[str, AgreementInterval]] = []
    writer = cast(
        "RecordWriter",
        SimpleNamespace(
            epoch=0,
            retain=lambda _: None,
            put=rows.append,
            put_agreement=lambda *stretch: stretches.append(stretch),
        ),
    )
    recorder = Recorder(writer)
    recorder.configure([player.target for player in fleet.players], Flags())
    yield recorder
    recorder.close()
    with closing(open_file(directory, fleet.begin, print)) as file:
        for first in range(0, len(rows), _ROWS):
            some = rows[first : first + _ROWS]
            file.write(some, some[-1].time)
        file.write_agreement(stretches)
        file.finish()
