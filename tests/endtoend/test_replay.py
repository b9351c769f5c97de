"""A replay beside the real thing: the same timeline through the control plane and a daemon."""

from collections.abc import Mapping

import pytest

from autoscaler import clock
from autoscaler.config import load
from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.engine.building import built
from autoscaler.lab.engine.world import World as SimulatedWorld
from autoscaler.lab.past.record import RecordedData
from autoscaler.persistence.record import DirectoryRecord
from tests.replay.test_faithful import CountingWatcher
from tests.worlds.waiting import let_pass
from tests.worlds.world import World

LOADS = (1.0, 4.0, 9.0, 9.0, 3.0, 6.0, 1.0, 1.0, 1.0)
"""How many replicas are needed, each for four seconds: a queue that rises, falls and comes back."""
SECONDS = 4.0
BEHAVIORS: Mapping[str, Mapping[str, object]] = {
    "steps": {
        "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 2}]},
        "scaleDown": {
            "stabilizationWindowSeconds": 3,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}],
        },
    },
    "percent": {
        "scaleUp": {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 3}]},
        "scaleDown": {"stabilizationWindowSeconds": 0},
    },
    "held": {"scaleDown": {"stabilizationWindowSeconds": 10}},
}
"""Of each Deployment."""


@pytest.mark.usefixtures("kubelet")
def test_the_simulated_world_agrees_with_the_control_plane(world: World) -> None:
    for name in BEHAVIORS:
        world.deploy(name)
    world.want(LOADS[0])
    targets = [world.target(name, behavior=value) for name, value in BEHAVIORS.items()]
    state = world.folder / "simulated"
    document = world.document(*targets, stateDirectory=str(state))
    began = clock.wall()
    with world.running(document):
        for replicas in LOADS:
            world.exporter.set(world.metric, {}, replicas)
            let_pass(SECONDS)
    span, record = (began, clock.wall()), DirectoryRecord(state)
    config = load(world.write(document))
    replayed, ran = CountingWatcher(*span), {}
    for target in config.targets:
        samples = record.samples(target.key, *span)
        ran[target.key] = {
            sample.time: (sample.numbers[0], sample.numbers[1]) for sample in samples
        }
        data = RecordedData(record, *span, config.flags)
        begin = min(ran[target.key])
        item = built(target, config.flags, data, Assumptions(), begin).target
        for _ in SimulatedWorld([item], replayed).run(begin, span[1]):
            pass
    for key, counts in ran.items():
        assert len({current for current, _ in counts.values()}) > 3, "it says something"
        assert {at: replayed.counts[key].get(at) for at in counts} == counts
