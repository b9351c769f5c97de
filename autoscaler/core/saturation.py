"""Whether more replicas are wanted than bounds and policies permit (semantics 8.6)."""

from dataclasses import replace

from autoscaler.core.decision import Limit, Saturation
from autoscaler.core.history import History

LASTING_SECONDS = 900.0
"""From then on a saturation is worth a report."""


def note_saturation(
    limit: Limit | None, history: History, now: float
) -> tuple[Saturation | None, History]:
    """Return the saturation that the limit shows, and the history with its beginning."""
    if limit is None or limit.before <= limit.after:
        if history.saturated_since is not None:
            history = replace(history, saturated_since=None)
        return None, history
    if history.saturated_since is None:
        history = replace(history, saturated_since=now)
    since = now if history.saturated_since is None else history.saturated_since
    return Saturation(limit.before - limit.after, since, limit.reason), history
