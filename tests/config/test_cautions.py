"""What is valid and probably not meant is told with its place and what holds."""

import re
from pathlib import Path

import pytest

from autoscaler.config.cautions import cautions_on
from autoscaler.config.problems import MOST_PROBLEMS
from tests.config.documents import EXTERNAL, cases, loaded, target, top

T = "targets[0]."
S = T + "schedules[0]."
WINDOWS = {
    "DAY": "name: day, start: 0 8 * * *, end: 0 18 * * *",
    "NIGHT": "name: night, start: 0 22 * * *, end: 0 6 * * *",
    "SUNDAY": "name: sunday, start: 0 0 * * 0, end: 0 0 * * 1",
    "DECEMBER": "name: december, start: 0 0 1 12 *, end: 0 0 1 1 *, timezone: Europe/Berlin",
}


def extended(keys: str) -> str:
    """Return a document with a target with an External metric and these keys."""
    keys = re.sub("[A-Z]{3,}", lambda name: WINDOWS[name[0]], keys)
    return target(f"{keys}\nmetrics:\n{EXTERNAL}")


def windows(*keys: str) -> str:
    """Return a document with a target with these windows."""
    return extended("schedules: [{" + "}, {".join(keys) + "}]")


OF_ALL = """
scaleDownBreaker:
    => scaleDownBreaker: has no value, so that it is off; `scaleDownBreaker: {}` takes the defaults
web: {listen: ':9443'}
    => web.listen: others reach it, and only clients on this machine are answered: set web.auth
scaleDownBreaker: {share: 4%}
    => scaleDownBreaker: 4% of minTargets, which is 20, is less than one target: of fewer than 25
    targets of one server none could ever go down, since one trips it; set minTargets to 25 or more
scaleDownBreaker: {minTargets: 3} => scaleDownBreaker: of fewer than 4 targets
"""
OF_A_TARGET = """
schedules: [{name: day, start: 0 8 * * *, end: 00 8 * * *, maxReplicas: 3}]
    => schedules[0].end: comes at the instant of every start, so that the window never opens
schedules: [{name: a, start: 0 8 * * 1-5, end: '* * * * *', minReplicas: 2}]
    => schedules[0].end: never opens
syncPeriod: 30m; schedules: [{name: day, start: 0 8 * * *, end: 10 8 * * *, minReplicas: 2}]
    => schedules[0].end: comes 10m after a start, and the target is synced every 30m: such a window
    may open and close without any effect
idle: => idle: has no value, so that it is off; `idle: {}` takes
fallback: {replicas: 11}
    => fallback.replicas: is more than maxReplicas, which is 10: a fallback stays within the bounds
fallback: {replicas: 4, behavior: currentReplicas}
    => fallback.replicas: has no use beside behavior currentReplicas
schedules: [{SUNDAY, minReplicas: 5}, {DAY, maxReplicas: 3}]
    => schedules[0].minReplicas: of `day`, which is 3, and both windows can be open at once: the
    minimum then holds
schedules: [{DECEMBER, minReplicas: 5}, {SUNDAY, maxReplicas: 3}]
    => schedules[0].minReplicas: is more than the maxReplicas of `sunday`
schedules: [{NIGHT, minReplicas: 0}]
    => schedules[0].minReplicas: `idle` in its place makes 0 a normal
paused: {replicas: 0} => paused.replicas: is 0, and the target's own minReplicas is not
"""
SHORT = """
name: a, start: 0 8 * * *, end: 4 8 * * *, minReplicas: 2 => end: comes 4m after a start
"""
DOUBTFUL = [
    *cases(top, "", OF_ALL),
    *cases(extended, T, OF_A_TARGET),
    *cases(lambda window: "syncPeriod: 5m\n" + windows(window), S, SHORT),
]


@pytest.mark.parametrize(("text", "path", "fragment"), DOUBTFUL)
def test_what_is_doubtful_is_told_once_with_its_line(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    """Each is told once, with its line."""
    (doubt,) = cautions_on(loaded(tmp_path, text))
    assert doubt.path == path
    assert fragment in doubt.message
    assert doubt.line is not None
    assert path.rpartition(".")[2].partition("[")[0] in text.splitlines()[doubt.line - 1]


FINE = [
    top("scaleDownBreaker: {}\n"),
    extended("idle: {}"),
    extended("idle: {}\npaused: {replicas: 0}"),
    extended("minReplicas: 0\nschedules: [{NIGHT, minReplicas: 0}]"),
    extended("fallback: {replicas: 10}"),
    extended("fallback: {replicas: 20}\nschedules: [{DAY, maxReplicas: 20}]"),
    extended("fallback: {behavior: currentReplicas}"),
    windows("DAY, minReplicas: 5", "NIGHT, maxReplicas: 3"),
    windows("SUNDAY, minReplicas: 5, maxReplicas: 9", "DAY, maxReplicas: 3"),
    windows("SUNDAY, minReplicas: 3", "DAY, maxReplicas: 3"),
    top("scaleDownBreaker: {share: 5%}"),
    top("scaleDownBreaker: {minTargets: 4}"),
    windows("name: a, start: 0 8 * * *, end: 1 8 * * *, minReplicas: 2"),
    # Closed at once on weekdays, and open at weekends.
    windows("name: a, start: 0 8 * * *, end: 0 8 * * 1-5, minReplicas: 2"),
    # At once for longer than is looked at.
    windows("name: a, start: '* * * * *', end: '* * * * 1-5', minReplicas: 2"),
    "syncPeriod: 30m\n" + windows("name: a, start: 0 8 * * *, end: 30 8 * * *, minReplicas: 2"),
]


@pytest.mark.parametrize("text", FINE)
def test_what_is_not_doubtful_is_not_told(tmp_path: Path, text: str) -> None:
    """Nothing is said of windows that are never open at once, nor of a count within the bounds."""
    assert cautions_on(loaded(tmp_path, text)) == []


def test_cautions_are_bounded_and_of_every_file(tmp_path: Path) -> None:
    """No more are told than mistakes would be, and those of included files with their name."""
    target_ = extended("idle:").partition("targets:\n")[2]
    more = "".join(target_.replace("name: web", f"name: web-{one}") for one in range(150))
    (tmp_path / "more.yaml").write_text(f"targets:\n{more}")
    text = extended("idle:") + "include: [more.yaml]\n"
    first, *others = cautions_on(loaded(tmp_path, text))
    assert first.file == str(tmp_path / "autoscaler.yaml")
    assert {one.file for one in others} == {str(tmp_path / "more.yaml")}
    assert len(others) + 1 == MOST_PROBLEMS
