"""Sentences about the scale-down breaker."""

from autoscaler.core.text import duration, printable, rfc3339
from autoscaler.rendering import wording
from autoscaler.sync.ports import BreakerChange, BreakerNews

_LONGEST_QUERY = 300


def sentence(news: BreakerNews) -> str:
    """Say what happened to the breaker of a server, with all that an operator needs."""
    return f"the scale-down breaker {_change(news)}"


def command(server: str) -> str:
    """Return the command that releases a server."""
    return f"autoscaler release --server {printable(server)}" if server else "autoscaler release"


def _change(news: BreakerNews) -> str:
    trip, server = news.trip, wording.prometheus_server(news.server)
    who = f"{trip.down} of the {trip.of} targets that read from {server}"
    now = f"{wording.counted(news.down, 'target')} of {news.of} that read from {server}"
    match news.change:
        case BreakerChange.TRIPPED:
            return f"has tripped: {who} would go down at once{_held(news)}"
        case BreakerChange.TRIPPED_AGAIN:
            return f"has tripped again: {who} would still go down{_held(news)}"
        case BreakerChange.RESUMED:
            return f"goes on after the restart: {who} were about to go down{_held(news)}"
        case BreakerChange.RELEASED:
            return (
                f"was released: {now} may go down; it does not trip again for as long as it holds"
            )
        case BreakerChange.ENDED:
            held = duration(trip.until - trip.at)
            return f"has ended after {held}: {now} would go down, which is not too many"
        case BreakerChange.REMOVED:
            return f"has ended by the new configuration: {now} may go down"


def _held(news: BreakerNews) -> str:
    """Say until when nothing goes down, and what ends that."""
    query = printable(news.trip.query, _LONGEST_QUERY)
    shared = f"; the query that they share most is {query}" if query else ""
    return (
        f"; nothing goes down before {rfc3339(news.trip.until)}, scale-ups go on{shared}; "
        f"if they may go down: {command(news.server)}"
    )
