"""Sentences about the scale-down breaker."""

from autoscaler.core.text import duration, printable, rfc3339
from autoscaler.rendering import wording
from autoscaler.sync.ports import BreakerChange, BreakerNews

_LONGEST_QUERY = 300


def sentence(news: BreakerNews) -> str:
    """Say what happened to the breaker of a server, with all that an operator needs."""
    trip, server = news.trip, wording.prometheus_server(news.server)
    who = f"{trip.down} of the {trip.of} targets that read from {server}"
    until = rfc3339(trip.until)
    now = wording.counted(news.down, "target")
    match news.change:
        case BreakerChange.TRIPPED:
            return (
                f"the scale-down breaker has tripped: {who} would go down at once; nothing goes "
                f"down before {until}, scale-ups go on{_query(news)}; if they may go down: "
                f"{command(news.server)}"
            )
        case BreakerChange.TRIPPED_AGAIN:
            return (
                f"the scale-down breaker has tripped again: {who} would still go down; nothing "
                f"goes down before {until}, scale-ups go on{_query(news)}; if they may go down: "
                f"{command(news.server)}"
            )
        case BreakerChange.RESUMED:
            return (
                f"the scale-down breaker goes on after the restart: {who} were about to go down; "
                f"nothing goes down before {until}, scale-ups go on{_query(news)}; if they may go "
                f"down: {command(news.server)}"
            )
        case BreakerChange.RELEASED:
            return (
                f"the scale-down breaker was released: {now} of {news.of} that read from {server} "
                "may go down; it does not trip again for as long as it holds"
            )
        case BreakerChange.ENDED:
            held = duration(trip.until - trip.at)
            return (
                f"the scale-down breaker has ended after {held}: {now} of {news.of} that read "
                f"from {server} would go down, which is not too many"
            )
        case BreakerChange.REMOVED:
            return (
                f"the scale-down breaker has ended by the new configuration: {now} of {news.of} "
                f"that read from {server} may go down"
            )


def command(server: str) -> str:
    """Return the command that releases a server."""
    return f"autoscaler release --server {printable(server)}" if server else "autoscaler release"


def _query(news: BreakerNews) -> str:
    query = printable(news.trip.query, _LONGEST_QUERY)
    return f"; most of them share the query {query}" if query else ""
