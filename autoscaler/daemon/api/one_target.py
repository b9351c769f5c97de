"""`/targets/NAMESPACE/KIND/NAME`: how a target stands, and the configuration in force for it."""

from autoscaler.core.extensions import Schedule
from autoscaler.core.spec import Flags
from autoscaler.core.text import rfc3339
from autoscaler.daemon.api.finding import configured
from autoscaler.daemon.exposition.target_list import target_state
from autoscaler.daemon.exposition.views import Views
from autoscaler.rendering.configuration import as_written, duration
from autoscaler.rendering.record import Json
from autoscaler.schedules import Cron, open_windows, time_zone


def one_target(views: Views, key: str, now: float) -> Json:
    """Return a target's state, configuration and schedules."""
    known = configured(views, key)
    target = known.target
    schedules = target.extensions.schedules
    still_open = {one.schedule: one.until for one in open_windows(schedules, now)}
    return {
        "state": target_state(known),
        "configuration": as_written(target),
        "defaults": _defaults(views.config().flags),
        "schedules": [_schedule(one, still_open.get(one), now) for one in schedules],
    }


def _defaults(flags: Flags) -> Json:
    return {
        "tolerance": flags.tolerance,
        "downscaleStabilization": duration(flags.downscale_stabilization),
        "cpuInitializationPeriod": duration(flags.cpu_initialization_period),
        "initialReadinessDelay": duration(flags.initial_readiness_delay),
    }


def _schedule(one: Schedule, until: float | None, now: float) -> Json:
    opens, closes = None, until
    if closes is None:
        zone = time_zone(one.timezone)
        opens = Cron(one.start, zone).next_after(now)
        closes = Cron(one.end, zone).next_after(opens - 1)
    return {
        "name": one.name,
        "open": until is not None,
        "opens": None if opens is None else rfc3339(opens),
        "closes": rfc3339(closes),
        "minReplicas": one.min_replicas,
        "maxReplicas": one.max_replicas,
    }
