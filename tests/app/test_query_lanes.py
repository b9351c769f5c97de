"""Whose turn it is where there is no time for all queries."""

import threading
from contextlib import closing

from autoscaler import clock
from autoscaler.app.query_lanes import NO_TURN, QueryLanes
from autoscaler.core.series import Answer, QueryFailure
from tests.app.world import answer

QUERIES = [f"q{number}" for number in range(60)]
FOR_EVER = float("inf")


class Server:
    """Answers at once, and remembers what it was asked."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: set[str] = set()

    def query(self, promql: str, deadline: float) -> Answer | QueryFailure:  # noqa: ARG002 - port
        """Fit `MetricsReader`."""
        with self.lock:
            self.asked.add(promql)
        return answer(1.0)


def test_what_had_no_turn_comes_first_the_next_time() -> None:
    """However many queries there is no time for, each has its turn before any has its second."""
    server = Server()
    with closing(QueryLanes(2.0)) as lanes:
        for sync in range(3):
            order = lanes.by_turn(QUERIES)
            in_time, late = order[:20], order[20:]
            for promql in in_time:
                assert lanes.ask(server, promql, FOR_EVER).result() == answer(1.0)
            for promql in late:
                over = lanes.ask(server, promql, clock.monotonic())
                assert over.result() == QueryFailure(NO_TURN)
            assert len(server.asked) == 20 * (sync + 1)


def test_who_is_asked_no_more_is_forgotten() -> None:
    """A query that returns is new again."""
    server = Server()
    with closing(QueryLanes(2.0)) as lanes:
        for promql in ("a", "b"):
            lanes.ask(server, promql, FOR_EVER).result()
        assert lanes.by_turn(["b", "a", "new"]) == ["new", "a", "b"]
        lanes.retain({"a"})
        assert lanes.by_turn(["a", "b"]) == ["b", "a"]
