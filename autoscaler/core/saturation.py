"""Whether more replicas are wanted than bounds and policies permit (semantics 8.6)."""

from dataclasses import replace

from autoscaler.core.decision import Limit, Saturation
from autoscaler.core.history import ExtensionHistory


def note_saturation(
    limit: Limit | None, known: ExtensionHistory, now: float
) -> tuple[Saturation | None, ExtensionHistory]:
    """Return the saturation that the limit shows, and the history with its beginning."""
    since = known.saturated_since
    if limit is None or limit.before <= limit.after:
        return None, known if since is None else replace(known, saturated_since=None)
    if since is None:
        since, known = now, replace(known, saturated_since=now)
    return Saturation(limit.before - limit.after, since, limit.reason), known
