"""`autoscaler agreement`: what it prints of a daemon and of a directory, and its exit codes."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.telemetry.health import Health
from tests.adapters.record.agreed import DIFFERENT, WITHIN, kept, stretch
from tests.adapters.record.recording import running as recording
from tests.cli.test_commands import ran as run
from tests.cli.test_recorded import record
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import serving, views_of
from tests.web.test_listener import HOST

SPEC = spec(external(average("10")))
SHADOW = Extensions(mode=Mode.SHADOW)
BAD_KEY = "shop/Deployment/bad"


@pytest.fixture(autouse=True)
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.setenv("COLUMNS", "78")
    time.tzset()
    monkeypatch.setattr(clock, "wall", lambda: BASE + 9000)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a state directory in which `good` is ready, and `bad` differs at times."""
    bad = [stretch(0, 800), stretch(2000, 60, WITHIN)]
    bad += [stretch(1000 + 200 * n, 100 - 10 * n, DIFFERENT) for n in range(4)]
    good = ("shop/Deployment/good", stretch(0, 5000))
    kept(tmp_path, good, *((BAD_KEY, metric) for metric in bad))
    return tmp_path


@contextmanager
def daemon(folder: Path | None) -> Iterator[str]:
    """Serve a daemon with two targets in shadow, and one that is live; give its address."""
    targets = [target_of(name, extensions=SHADOW) for name in ("good", "bad")]
    metrics = metrics_of(*map(result_of, [target_of("live"), *targets]))
    views = views_of(metrics, Health(), record=None if folder is None else DirectoryRecord(folder))
    with serving(views) as listener:
        yield f"http://{HOST}:{listener.port}"


def ran(*arguments: object) -> tuple[int, str, str]:
    """Run the command."""
    return run("agreement", *map(str, arguments))


BAD = """\
shop/Deployment/bad: it agrees with the HPA in 71.6 % of 20 min 0 s; the
  longest difference: 9 here, 8 there for 1 min 40 s: maxReplicas is 20 here
  and 8 there
  the same count              66.6 %  13 min 20 s
  the same within one period     5 %  1 min 0 s, 1 time, at most 1 min 0 s
  different                   28.3 %  5 min 40 s, 4 times, at most 1 min 40 s
"""
FIRST = """\
  2026-01-01 01:16:40+01:00, for 1 min 40 s: 9 here, 8 there: maxReplicas is
  20 here and 8 there
"""
GOOD = """\
shop/Deployment/good: it agrees with the HPA in 100 % of 1 h 23 min; ready:
  autoscaler adopt shop/Deployment/good
  the same count   100 %  1 h 23 min
"""


def test_the_worst_is_told_first_and_then_how_far_the_move_has_come(folder: Path) -> None:
    """Of many the two longest disagreements each; it fails as long as one is not ready."""
    with daemon(folder) as url:
        code, out, _ = ran("--url", url)
    assert code == 1
    assert out.startswith(BAD + FIRST)
    assert "  and 2 shorter ones: -o json has them\n" in out
    assert out.endswith(f"{GOOD}1 of 3 targets moved, 2 in shadow\n")


def test_of_one_all_is_told(folder: Path) -> None:
    """Its disagreements in the order of their time."""
    with daemon(folder) as url:
        code, out, _ = ran("--url", url, "shop/bad")
    assert code == 1
    begins = [line.split(",")[0].strip() for line in out.splitlines() if ", for " in line]
    assert [begin[11:19] for begin in begins] == ["01:16:40", "01:20:00", "01:23:20", "01:26:40"]


def test_a_target_that_is_ready_is_success(folder: Path) -> None:
    """So that a script may ask."""
    with daemon(folder) as url:
        assert ran("--url", url, "shop/good")[0] == 0
        assert ran("--url", url, "shop/good", "shop/bad")[0] == 1


def test_json_has_everything(folder: Path) -> None:
    """As the API gives it."""
    with daemon(folder) as url:
        code, out, _ = ran("--url", url, "-o", "json")
    told = json.loads(out)
    assert (code, told["live"], told["shadow"]) == (1, 1, 2)
    (bad,) = [number for number in told["targets"] if number["verdict"] == "differs"]
    assert len(bad["disagreements"]) == 4


def test_a_directory_tells_those_that_are_still_in_shadow(tmp_path: Path) -> None:
    """What was compared of one that is live now is told only if that is named."""
    for timeline, last in (
        (Timeline(SPEC, extensions=SHADOW), "0 of 1 target moved, 1 in shadow"),
        (Timeline(SPEC), "no target is in shadow: none is controlled by an HPA"),
    ):
        for file in tmp_path.glob("record.*"):
            file.unlink()
        with recording(tmp_path) as recorder:
            record(recorder, timeline, {0: 30})
        kept(tmp_path, stretch(0, 5000))
        assert ran("--state-directory", tmp_path)[1].splitlines()[-1].startswith(last)
    _, out, note = ran("--state-directory", tmp_path, "shop/web")
    assert GOOD.split(":")[1][:40] in out
    assert note.startswith(f"from the record in {tmp_path}, as it was at ")


def test_a_shorter_time_is_chosen(folder: Path) -> None:
    """It begins within the third of the differences, of which a half is left."""
    with daemon(folder) as url:
        out = ran("--url", url, "--since", f"{9000 - 1440}s", "shop/bad")[1]
    assert "different                   64.7 %  1 min 50 s, 2 times, at most 1 min 10 s" in out


def test_where_nothing_is_in_shadow_it_says_how_there_would_be() -> None:
    """And fails, since nothing is ready."""
    views = views_of(metrics_of(result_of(target_of("live"))), Health())
    with serving(views) as listener:
        code, out, _ = ran("--url", f"http://{HOST}:{listener.port}")
    assert code == 1
    assert out.startswith("no target is in shadow: none is controlled by an HPA")


def test_where_nothing_is_kept_it_says_so(tmp_path: Path) -> None:
    """Of a daemon whose comparison begins, and of a directory without a file."""
    with daemon(tmp_path) as url:
        assert "nothing has been compared" in ran("--url", url)[1]
    code, out, error = ran("--state-directory", tmp_path)
    assert (code, out) == (1, "")
    assert error


def test_an_unknown_target_is_refused(folder: Path) -> None:
    """With those that may be meant."""
    with daemon(folder) as url:
        code, _, error = ran("--url", url, "shop/goood")
    assert code == 2
    assert "goood" in error
