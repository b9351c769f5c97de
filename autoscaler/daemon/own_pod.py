"""The pod that the daemon runs in, and Events on it."""

import os
from collections.abc import Mapping

from autoscaler import clock
from autoscaler.adapters.cluster.events import Involved
from autoscaler.core.decision import Event
from autoscaler.daemon.events import EventReporter
from autoscaler.rendering import breaker_words
from autoscaler.sync.ports import HOLDS, BreakerNews

TRIPPED, ENDED = "ScaleDownBreakerTripped", "ScaleDownBreakerEnded"


def own_pod(environment: Mapping[str, str] = os.environ) -> Involved | None:
    """Return the pod that the variables of the Deployment's manifest name; None without them."""
    namespace, name = environment.get("POD_NAMESPACE"), environment.get("POD_NAME")
    if not namespace or not name:
        return None
    return Involved("v1", "Pod", namespace, name, environment.get("POD_UID", ""))


def tell_breaker(events: EventReporter, pod: Involved, news: BreakerNews) -> None:
    """Tell as an Event on a pod that a scale-down breaker has tripped or ended."""
    held = news.change in HOLDS
    kind, reason = ("Warning", TRIPPED) if held else ("Normal", ENDED)
    events.tell(pod, Event(kind, reason, breaker_words.sentence(news)), clock.wall())
