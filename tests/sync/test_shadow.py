"""A target in shadow is read, decided and reported, and nothing of it is written."""

from dataclasses import replace

from autoscaler.core.breaker import Breaker
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.observation import Scale
from autoscaler.core.writes import SkippedWrite, SkippedWriteReason
from autoscaler.sync.breakers import Breakers
from tests.worlds.memory import T0, Memory, answer, external

LIVE = external("shop", "live")
SHADOW = replace(external("shop", "shadow"), extensions=Extensions(mode=Mode.SHADOW))


def world(queue: float, replicas: int) -> Memory:
    """Return a world in which a HorizontalPodAutoscaler controls the target in shadow."""
    scales = {item: Scale(replicas, replicas, "app=a") for item in ("shop/live", "shop/shadow")}
    memory = Memory(answers={"queue": answer(queue)}, scales=dict(scales))
    memory.controllers["shop/shadow"] = 'HorizontalPodAutoscaler "keda-hpa-shadow"'
    return memory


def test_it_is_decided_like_the_live_one_and_not_written() -> None:
    """No write is sent, and none is noted as one that may have been."""
    memory = world(90.0, 1)
    with memory.syncer() as syncer:
        for number in range(3):
            syncer.sync([LIVE, SHADOW], T0 + 15 * number, 10.0, steady=15.0 * number)
    live, shadow = memory.result("shop/live"), memory.result("shop/shadow")
    assert {name for name, _ in memory.written} == {"shop/live"}
    assert shadow.decision.desired == live.decision.desired == 3
    assert shadow.write == SkippedWrite(SkippedWriteReason.SHADOW)
    assert memory.kept[SHADOW.key].pending is None


def test_the_scale_down_breaker_does_not_count_it() -> None:
    """Of a server's ten targets nine are in shadow: it has one."""
    shadows = [replace(SHADOW, spec=external("shop", f"s{number}").spec) for number in range(9)]
    breakers = Breakers()
    breakers.change(Breaker(min_targets=1), [LIVE, *shadows])
    assert [status.of for status in breakers.statuses(0.0)] == [1]
