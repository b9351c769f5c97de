"""`/targets/NAMESPACE/KIND/NAME`: how a target stands, and the configuration in force for it."""

from autoscaler.core.extensions import Schedule
from autoscaler.core.spec import Flags
from autoscaler.core.text import rfc3339
from autoscaler.daemon.api.finding import configured
from autoscaler.daemon.exposition.target_list import target_state
from autoscaler.daemon.exposition.views import Views
from autoscaler.rendering.configuration import as_written, duration
from autoscaler.rendering.record import Json
from autoscaler.schedules import next_window


def one_target(views: Views, key: str, now: float) -> Json:
    """Return a target's state, configuration and schedules."""
    known = configured(views, key)
    target = known.target
    return {
        "state": target_state(known),
        "configuration": as_written(target),
        "defaults": _defaults(views.config().flags),
        "schedules": [_schedule(one, now) for one in target.extensions.schedules],
    }


def _defaults(flags: Flags) -> Json:
    return {
        "tolerance": flags.tolerance,
        "downscaleStabilization": duration(flags.downscale_stabilization),
        "cpuInitializationPeriod": duration(flags.cpu_initialization_period),
        "initialReadinessDelay": duration(flags.initial_readiness_delay),
    }


def _schedule(one: Schedule, now: float) -> Json:
    opens, closes = next_window(one, now)
    return {
        "name": one.name,
        "open": opens is None,
        "opens": None if opens is None else rfc3339(opens),
        "closes": rfc3339(closes),
        "minReplicas": one.min_replicas,
        "maxReplicas": one.max_replicas,
    }
