"""The order of idle, fallback, paused and bounds, and the code that runs for each (semantics 8)."""

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from autoscaler import core
from autoscaler.core.decide import decide
from autoscaler.core.decision import Outcome
from autoscaler.core.extensions import (
    NO_EXTENSIONS,
    Extensions,
    Fallback,
    Idle,
    Pause,
    PauseMode,
    ReplicaRounding,
    Schedule,
)
from autoscaler.core.history import (
    Contention,
    History,
    Recommendation,
)
from autoscaler.core.idling import NONE_ACTIVE
from autoscaler.core.observation import (
    HoldReading,
    Observation,
    OpenWindow,
    Reading,
    Scale,
)
from autoscaler.core.reconcile import BELOW_MIN
from autoscaler.core.spec import Flags
from tests.core.builders import BASE, QUEUE, behavior, pods, pods_policy, rules, spec, values
from tests.core.deciding import ERROR
from tests.core.timeline import Timeline

WINDOW = OpenWindow(Schedule("office", "0 8 * * *", "0 18 * * *", "UTC", 5), BASE + 60, "18:00 UTC")
ALL = Extensions(
    idle=Idle(after=30.0), fallback=Fallback(7, failure_threshold=1), schedules=(WINDOW.schedule,)
)


def test_the_rules_have_an_order() -> None:
    """Paused before bounds, bounds before idle, idle before the metrics, these before policies."""
    slow = behavior(up=rules(pods_policy(1)), down=rules(pods_policy(1), window=60))
    line = Timeline(spec(QUEUE, minimum=2, behavior=slow), replicas=3, extensions=ALL)
    line.sync("0s", queue=30).want(3)
    line.sync("15s", queue=None).want(4, reason="fallback")
    line.sync("30.1s", queue=0).want(4, stabilized="ScaleDownStabilized")
    line.sync("46s", queue=0).want(0, reason=NONE_ACTIVE)
    line.opened(WINDOW).sync("1m1s", queue=0)
    line.want(5, reason=f"{BELOW_MIN} (schedule office until 18:00 UTC)")
    line.annotated(paused_replicas="1").sync("1m16s", queue=90).want(1)
    line.controlled_by('ScaledObject "web"').sync("1m31s", queue=90).want(1)


@pytest.mark.parametrize("mode", [None, *PauseMode])
def test_a_held_target_writes_nothing_paused_or_not(mode: PauseMode | None) -> None:
    """Others have reversed our writes: a pause of ours would be one more."""
    pause = None if mode is None else Pause(mode, 9 if mode is PauseMode.ALL else None)
    target = Timeline(spec(QUEUE), replicas=4, extensions=Extensions(pause=pause))
    for minute in range(4):
        target.sync(f"{minute}m", queue=90).by_hand(4)
    assert (target.decision.outcome is Outcome.BLOCKED) == (mode is not PauseMode.SCALE_UP)
    assert isinstance(target.decision.scale, Scale)


# -- A target passes only through the files of what it has, and of what has happened to it ---------


CORE = Path(core.__file__).parent
GUARDS = frozenset({"guards", "bounds", "idling", "missing_data", "multiples"})
SINCE_THE_LAST_SYNC = frozenset({"gaps", "contention"})
OF_QUEUE = spec(QUEUE, minimum=2, maximum=20, behavior=behavior())
SCHEDULED = Extensions(schedules=(WINDOW.schedule,))


def observed(*readings: Reading, replicas: int = 5) -> Observation:
    """Observe what a daemon does: with ranges, keys and the last sync."""
    return Observation(
        Scale(replicas, replicas, "app=web", generation=7),
        pods(replicas),
        readings,
        last_read=BASE - 15.0,
        last_sync=BASE - 15.0,
        ranges=(120.0,) * len(readings),
        metric_keys=tuple(f"key-{index}" for index in range(len(readings))),
    )


def files_of(observation: Observation, extensions: Extensions = NO_EXTENSIONS) -> frozenset[str]:
    """Decide some time after the first sync, and return which of those files had code that ran."""
    keys, contention = observation.metric_keys, Contention(5, generation=7)
    history = History((Recommendation(5, BASE - 15.0),), contention=contention, metric_keys=keys)
    files: set[str] = set()

    def profile(frame: FrameType, _event: str, _argument: object) -> None:
        files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        decide(OF_QUEUE, Flags(), observation, history, BASE, extensions=extensions)
    finally:
        sys.setprofile(before)
    of_core = {path.stem for path in map(Path, files) if path.parent == CORE}
    assert "reconcile" in of_core
    return frozenset(of_core & (GUARDS | SINCE_THE_LAST_SYNC))


WHOLE = observed(values(50.0))
ANNOTATED = replace(
    WHOLE, scale=Scale(5, 5, "app=web", generation=7, annotations=(("autoscaler/paused", "true"),))
)


@pytest.mark.parametrize(
    ("observation", "extensions", "files"),
    [
        *((observed(values(load)), NO_EXTENSIONS, set()) for load in (0.0, 40.0, 50.0, 500.0)),
        *((observed(values(50.0), replicas=n), NO_EXTENSIONS, {"contention"}) for n in (30, 1, 0)),
        (observed(ERROR), NO_EXTENSIONS, {"gaps", "missing_data"}),
        (observed(values(50.0), replicas=6), NO_EXTENSIONS, {"contention"}),
        (WHOLE, Extensions(pause=Pause(PauseMode.SCALE_UP)), {"guards"}),
        (ANNOTATED, NO_EXTENSIONS, {"guards"}),
        (WHOLE, SCHEDULED, {"bounds", "guards"}),
        (replace(WHOLE, windows=(WINDOW,)), SCHEDULED, {"bounds", "guards"}),
        (replace(WHOLE, max_replicas_reading=values(4.0)), NO_EXTENSIONS, {"bounds", "guards"}),
        (WHOLE, Extensions(idle=Idle()), {"idling", "guards"}),
        (WHOLE, Extensions(fallback=Fallback(6)), {"missing_data", "guards"}),
        (replace(WHOLE, hold=HoldReading()), NO_EXTENSIONS, {"guards"}),
        (WHOLE, Extensions(ignore_surge=True), {"guards"}),
        (WHOLE, Extensions(replicas=ReplicaRounding(4)), {"guards", "multiples"}),
    ],
)
def test_only_the_code_of_a_targets_extensions_runs(
    observation: Observation, extensions: Extensions, files: set[str]
) -> None:
    assert files_of(observation, extensions) == files
