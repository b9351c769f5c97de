"""What the requests of the adapters tell: counts, durations, and whether the servers answer."""

from http.client import responses

from autoscaler.daemon.exposition.instruments import NO_ANSWER, Instruments
from autoscaler.daemon.health import Component, Health

# A query that is refused for what it says was answered all the same.
_PROMETHEUS_ANSWERS = frozenset({"200", "400", "422"})


class RequestsSeen:
    """Takes in each request, on whatever thread it was sent."""

    def __init__(self, instruments: Instruments, health: Health) -> None:
        self._instruments = instruments
        self._health = health

    def prometheus(self, code: str, seconds: float) -> None:
        """Take in a request to Prometheus; an empty code: no answer came that can be read."""
        self._instruments.prometheus_request(code or NO_ANSWER, seconds)
        answered = code in _PROMETHEUS_ANSWERS
        self._health.heard(Component.PROMETHEUS, None if answered else _problem(code))

    def kubernetes(self, verb: str, code: str, seconds: float) -> None:
        """Take in a request to the API server; an empty code means that no answer came.

        Most refusals are of one object or one verb: only credentials that are not accepted, and a
        server that can do nothing, mean that it does not answer us.
        """
        self._instruments.kubernetes_request(verb, code or NO_ANSWER, seconds)
        answered = bool(code) and code < "500" and code not in {"401", "429"}
        self._health.heard(Component.KUBERNETES, None if answered else _problem(code))


def _problem(code: str) -> str:
    if not code:
        return "gives no answer, or none that can be read"
    phrase = responses.get(int(code), "")
    return f"answers only HTTP {code} {phrase}".strip()
