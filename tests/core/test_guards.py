"""A target passes only through the files of what it has, and of what has happened to it."""

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from autoscaler import core
from autoscaler.core.decide import decide
from autoscaler.core.extensions import (
    NO_EXTENSIONS,
    Extensions,
    Fallback,
    Idle,
    Pause,
    PauseMode,
    Schedule,
)
from autoscaler.core.history import Contention, History, Recommendation
from autoscaler.core.observation import HoldReading, Observation, OpenWindow, Reading, Scale
from autoscaler.core.spec import Flags
from tests.core.builders import BASE, average, behavior, external, pods, spec, values
from tests.core.deciding import ERROR

CORE = Path(core.__file__).parent
GUARDS = frozenset({"guards", "pauses", "bounds", "idling", "fallbacks", "holds"})
SINCE_THE_LAST_SYNC = frozenset({"gaps", "contention"})
QUEUE = spec(external(average("10")), minimum=2, maximum=20, behavior=behavior())
SCHEDULE = Schedule("office", "0 8 * * *", "0 18 * * *", "UTC", min_replicas=3)


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
    history = History(
        (Recommendation(5, BASE - 15.0),),
        contention=Contention(5, generation=7),
        metric_keys=observation.metric_keys,
    )
    files: set[str] = set()

    def profile(frame: FrameType, _event: str, _argument: object) -> None:
        files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        decide(QUEUE, Flags(), observation, history, BASE, extensions=extensions)
    finally:
        sys.setprofile(before)
    of_core = {path.stem for path in map(Path, files) if path.parent == CORE}
    assert "reconcile" in of_core
    return frozenset(of_core & (GUARDS | SINCE_THE_LAST_SYNC))


@pytest.mark.parametrize("load", [0.0, 40.0, 50.0, 500.0])
def test_a_target_without_extensions_runs_no_line_of_the_guards(load: float) -> None:
    """Nor of what is about gaps and about others, while neither is there."""
    assert files_of(observed(values(load))) == frozenset()


def test_a_target_without_extensions_runs_none_in_any_zone() -> None:
    """Above its maximum, below its minimum, and switched off."""
    for replicas in (30, 1, 0):
        assert not files_of(observed(values(50.0), replicas=replicas)) & GUARDS


def test_a_failed_metric_is_a_matter_of_gaps_alone() -> None:
    """So that its return is noticed."""
    assert files_of(observed(ERROR)) == {"gaps"}


def test_a_count_that_others_set_is_a_matter_of_contention_alone() -> None:
    """The last sync left five replicas."""
    assert files_of(observed(values(50.0), replicas=6)) == {"contention"}


WHOLE = observed(values(50.0))
ANNOTATED = replace(
    WHOLE, scale=Scale(5, 5, "app=web", generation=7, annotations=(("autoscaler/paused", "true"),))
)


@pytest.mark.parametrize(
    ("observation", "extensions", "files"),
    [
        (WHOLE, Extensions(pause=Pause(PauseMode.SCALE_UP)), {"pauses"}),
        (ANNOTATED, NO_EXTENSIONS, {"pauses"}),
        (WHOLE, Extensions(schedules=(SCHEDULE,)), {"bounds"}),
        (
            replace(WHOLE, windows=(OpenWindow(SCHEDULE, BASE + 60.0, "18:00"),)),
            Extensions(schedules=(SCHEDULE,)),
            {"bounds"},
        ),
        (replace(WHOLE, max_replicas_reading=values(4.0)), NO_EXTENSIONS, {"bounds"}),
        (WHOLE, Extensions(idle=Idle()), {"idling"}),
        (WHOLE, Extensions(fallback=Fallback(6)), {"fallbacks"}),
        (replace(WHOLE, hold=HoldReading()), NO_EXTENSIONS, {"holds"}),
        (WHOLE, Extensions(ignore_surge=True), set()),
    ],
)
def test_each_guard_runs_for_a_target_that_has_it(
    observation: Observation, extensions: Extensions, files: set[str]
) -> None:
    """A guard of another target costs it nothing, and cannot change what is decided for it."""
    assert files_of(observation, extensions) == files | {"guards"}
