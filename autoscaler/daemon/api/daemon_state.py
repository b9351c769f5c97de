"""`/fleet` and `/health`: the sum of all targets, and the daemon itself."""

from collections import Counter
from collections.abc import Sequence

from autoscaler import __version__
from autoscaler.core.text import rfc3339, rfc3339_milli
from autoscaler.daemon.exposition.site import component_json
from autoscaler.daemon.exposition.target_states import Known
from autoscaler.daemon.exposition.views import Views
from autoscaler.record.changes import is_at_maximum
from autoscaler.record.rows import RecordError
from autoscaler.rendering import wording
from autoscaler.rendering.record import Json
from autoscaler.rendering.verdict import State


def fleet(views: Views, now: float) -> Json:
    """Return the sums over all targets."""
    known = views.states.known()
    states = Counter((one.state or State.UNKNOWN).value for one in known)
    return {
        "time": rfc3339(now),
        "targets": len(known),
        "states": {state.value: states[state.value] for state in State},
        "failing": states[State.FAILING],
        "atMaximum": sum(
            one.last is not None and is_at_maximum(one.last.decision) for one in known
        ),
        "replicas": _replicas(known),
        "ready": views.health.ready,
        "leads": views.leads(),
    }


def _replicas(known: Sequence[Known]) -> Json:
    """Sum up the counts of the targets whose count is known."""
    decisions = [one.last.decision for one in known if one.last is not None]
    counted = [one for one in decisions if one.current is not None]
    return {
        "targets": len(counted),
        "current": sum(one.current or 0 for one in counted),
        "desired": sum(one.desired for one in counted),
        "minimum": sum(one.min_replicas for one in counted),
        "maximum": sum(one.max_replicas for one in counted),
    }


def health(views: Views) -> Json:
    """Return how the daemon itself stands."""
    return {
        "version": __version__,
        "ready": views.health.ready,
        "stalled": views.health.stalled(),
        "leads": views.leads(),
        "components": [component_json(one) for one in views.health.components()],
        "breakers": [
            {
                "server": wording.server_label(one.server),
                "tripped": one.until is not None,
                "until": None if one.until is None else rfc3339(one.until),
                "held": one.down,
                "targets": one.of,
            }
            for one in views.breakers()
        ],
        "record": _record(views),
    }


def _record(views: Views) -> Json:
    shown: Json = {"on": views.record is not None, "from": None, "to": None, "problem": None}
    if views.record is None:
        return shown
    try:
        span = views.record.span()
    except RecordError as error:
        return shown | {"problem": str(error)}
    if span is not None:
        shown |= {"from": rfc3339_milli(span[0]), "to": rfc3339_milli(span[1])}
    return shown
