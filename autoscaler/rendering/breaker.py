"""The changes of a scale-down breaker as sentences, for the log, the pages and Events."""

from autoscaler.core.text import duration, printable, rfc3339
from autoscaler.rendering import wording
from autoscaler.sync.ports import BreakerChange, BreakerNews

_LONGEST_QUERY = 300


def describe(news: BreakerNews) -> str:
    """Return the sentence about a change of a server's breaker."""
    trip, server = news.trip, wording.prometheus_server(news.server)
    who = f"{trip.down} of the {trip.of} targets that read from {server}"
    now = f"{wording.counted(news.down, 'target')} of {news.of} that read from {server}"
    query = printable(trip.query, _LONGEST_QUERY)
    shared = f"; the query that they share most is {query}" if query else ""
    held = (
        f"; no scale-down before {rfc3339(trip.until)}, scale-ups continue{shared};  "
        f"if they may go down: {release_command(news.server)}"
    )
    released = f"{now} may go down; it does not trip again for as long as it holds"
    ended = f"{duration(trip.until - trip.at)}: {now} would go down, which is not too many"
    change = {
        BreakerChange.TRIPPED: f"has tripped: {who} would go down at once{held}",
        BreakerChange.TRIPPED_AGAIN: f"has tripped again: {who} would still go down{held}",
        BreakerChange.RESUMED: f"continues after the restart: {who} were about to scale down{held}",
        BreakerChange.RELEASED: f"was released: {released}",
        BreakerChange.ENDED: f"has ended after {ended}",
        BreakerChange.REMOVED: f"has ended by the new configuration: {now} may go down",
    }[news.change]
    return f"the scale-down breaker {change}"


def release_command(server: str) -> str:
    """Return the command that releases a server."""
    return (
        f"autoscaler resume --breaker --server {printable(server)}"
        if server
        else "autoscaler resume --breaker"
    )
