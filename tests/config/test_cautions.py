"""What is valid and probably not meant is told with its place and what holds."""

from pathlib import Path

import pytest

from autoscaler.config.cautions import cautions_on
from autoscaler.config.problems import MOST_PROBLEMS
from tests.config.documents import EXTERNAL, loaded, target, top

T = "targets[0]."
S = T + "schedules[0]."
DAY = "name: day, start: 0 8 * * *, end: 0 18 * * *"
NIGHT = "name: night, start: 0 22 * * *, end: 0 6 * * *"
SUNDAY = "name: sunday, start: 0 0 * * 0, end: 0 0 * * 1"
DECEMBER = "name: december, start: 0 0 1 12 *, end: 0 0 1 1 *, timezone: Europe/Berlin"


def extended(keys: str) -> str:
    """Return a document with a target with an External metric and these keys."""
    return target(f"{keys}\nmetrics:\n{EXTERNAL}")


def windows(*keys: str) -> str:
    """Return a document with a target with these windows."""
    return extended("schedules: [{" + "}, {".join(keys) + "}]")


DOUBTFUL = [
    (
        top("scaleDownBreaker:\n"),
        "scaleDownBreaker",
        "has no value, so that it is off; `scaleDownBreaker: {}` takes the defaults",
    ),
    (
        top("web: {listen: ':9443'}"),
        "web.listen",
        "others reach it, and only clients on this machine are answered: set web.auth",
    ),
    (extended("idle:"), T + "idle", "has no value, so that it is off; `idle: {}` takes"),
    (
        extended("fallback: {replicas: 11}"),
        T + "fallback.replicas",
        "is more than maxReplicas, which is 10: a fallback stays within the bounds",
    ),
    (
        extended("fallback: {replicas: 4, behavior: currentReplicas}"),
        T + "fallback.replicas",
        "has no use beside behavior currentReplicas",
    ),
    (
        windows(f"{SUNDAY}, minReplicas: 5", f"{DAY}, maxReplicas: 3"),
        S + "minReplicas",
        "of `day`, which is 3, and both windows can be open at once: the minimum then holds",
    ),
    (
        windows(f"{DECEMBER}, minReplicas: 5", f"{SUNDAY}, maxReplicas: 3"),
        S + "minReplicas",
        "is more than the maxReplicas of `sunday`",
    ),
]


@pytest.mark.parametrize(("text", "path", "fragment"), DOUBTFUL)
def test_doubtful(tmp_path: Path, text: str, path: str, fragment: str) -> None:
    """Each is told once, with its line."""
    (doubt,) = cautions_on(loaded(tmp_path, text))
    assert doubt.path == path
    assert fragment in doubt.message
    assert doubt.line is not None
    assert path.rpartition(".")[2].partition("[")[0] in text.splitlines()[doubt.line - 1]


FINE = [
    top("scaleDownBreaker: {}\n"),
    extended("idle: {}"),
    extended("fallback: {replicas: 10}"),
    extended(f"fallback: {{replicas: 20}}\nschedules: [{{{DAY}, maxReplicas: 20}}]"),
    extended("fallback: {behavior: currentReplicas}"),
    windows(f"{DAY}, minReplicas: 5", f"{NIGHT}, maxReplicas: 3"),
    windows(f"{SUNDAY}, minReplicas: 5, maxReplicas: 9", f"{DAY}, maxReplicas: 3"),
    windows(f"{SUNDAY}, minReplicas: 3", f"{DAY}, maxReplicas: 3"),
    windows(
        f"{DAY}, minReplicas: 5",
        f"{DAY.replace('day', 'never').replace('18', '08')}, maxReplicas: 3",
    ),
]


@pytest.mark.parametrize("text", FINE)
def test_not_doubtful(tmp_path: Path, text: str) -> None:
    """Nothing is said of windows that are never open at once, nor of a count within the bounds."""
    assert cautions_on(loaded(tmp_path, text)) == []


def test_bounded_and_of_every_file(tmp_path: Path) -> None:
    """No more are told than mistakes would be, and those of included files with their name."""
    target_ = extended("idle:").partition("targets:\n")[2]
    more = "".join(target_.replace("name: web", f"name: web-{one}") for one in range(150))
    (tmp_path / "more.yaml").write_text(f"targets:\n{more}")
    text = extended("idle:") + "include: [more.yaml]\n"
    first, *others = cautions_on(loaded(tmp_path, text))
    assert first.file == str(tmp_path / "autoscaler.yaml")
    assert {one.file for one in others} == {str(tmp_path / "more.yaml")}
    assert len(others) + 1 == MOST_PROBLEMS
