"""Two real Prometheus servers, of which one stops answering and then dies."""

import os
import signal
import threading
from contextlib import ExitStack, closing

from autoscaler import clock
from autoscaler.adapters.prometheus import PrometheusReader
from autoscaler.core.decision import Calculation, Decision, MetricFailure
from autoscaler.core.observation import Scale
from tests.adapters.prometheus.reading import settings
from tests.sync.test_servers import on
from tests.worlds.memory import Memory, external
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer

BUDGET = 1.8


def rule(messages: int) -> str:
    """Return a rule by which a server has so many messages."""
    return f"groups: [{{name: a, rules: [{{record: queue, expr: vector({messages})}}]}}]"


def test_one_server_that_hangs_or_dies_costs_only_its_own_targets(
    start_prometheus: StartPrometheus,
) -> None:
    """Equal PromQL has its own answer at each; the targets of the other go on within the second."""
    alive, mimir = start_prometheus(rules=rule(60)), start_prometheus(rules=rule(90))
    for server in (alive, mimir):
        server.wait_for("queue")
    targets = [external("shop", "a"), on("mimir", "b", "queue")]
    memory = Memory()
    with ExitStack() as stack:
        for name, server in (("", alive), ("mimir", mimir)):
            memory.servers[name] = stack.enter_context(closing(reader_of(server, name)))
        syncer = stack.enter_context(memory.syncer())

        def synced() -> tuple[float, Decision, Decision]:
            """Sync with one replica each; return when the first was written, and the decisions."""
            memory.scales.update({f"shop/{name}": Scale(1, 1, "app=a") for name in "ab"})
            written: list[float] = []
            memory.on_write = lambda _: written.append(clock.monotonic())
            begun = clock.monotonic()
            syncer.sync(targets, clock.wall(), BUDGET)
            first, second = (memory.result(f"shop/{name}").decision for name in "ab")
            return written[0] - begun, first, second

        _, first, second = synced()
        assert (first.desired, second.desired) == (2, 3)
        assert mimir.pid is not None
        os.kill(mimir.pid, signal.SIGSTOP)
        try:
            _assert_other_goes_on(synced(), "Prometheus mimir at", "did not answer in time")
        finally:
            os.kill(mimir.pid, signal.SIGCONT)
        mimir.stop()
        _assert_other_goes_on(synced(), "Prometheus mimir at", "refused the connection")


def reader_of(server: PrometheusServer, name: str) -> PrometheusReader:
    """Return the connection to a server."""
    return PrometheusReader(settings(server.url), threading.Event(), name=name)


def _assert_other_goes_on(synced: tuple[float, Decision, Decision], *said: str) -> None:
    seconds, first, second = synced
    assert seconds < BUDGET / 3
    assert isinstance(first.metrics[0].outcome, Calculation)
    assert (first.desired, second.desired, second.rescale) == (2, 1, False)
    failure = second.metrics[0].outcome
    assert isinstance(failure, MetricFailure)
    assert all(part in failure.message for part in said), failure.message
