"""`autoscaler agreement`: its output for a daemon and for a directory, and its exit codes."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autoscaler.core.extensions import Extensions, Mode
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.telemetry.health import Health
from tests.adapters.record.agreed import DIFFERENT, WITHIN, record_with, stretch
from tests.adapters.record.recording import running as recording
from tests.cli.test_commands import ran as run
from tests.cli.test_recorded import record
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.narrowing import assert_parts
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import serving, views_of
from tests.web.test_listener import HOST

SPEC = spec(external(average("10")))
SHADOW = Extensions(mode=Mode.SHADOW)
BAD_KEY, GOOD_KEY = "shop/Deployment/bad", "shop/Deployment/good"


@pytest.fixture(autouse=True)
def _now_in_berlin(in_berlin: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "78")
    in_berlin(BASE + 9000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a state directory in which `good` is ready, and `bad` differs at times."""
    bad = [stretch(0, 800), stretch(2000, 60, WITHIN)]
    bad += [stretch(1000 + 200 * n, 100 - 10 * n, DIFFERENT) for n in range(4)]
    good = (GOOD_KEY, stretch(0, 5000))
    record_with(tmp_path, good, *((BAD_KEY, metric) for metric in bad))
    return tmp_path


@contextmanager
def daemon(folder: Path | None) -> Iterator[str]:
    """Serve a daemon with two targets in shadow and a live one; give its address."""
    targets = [target_of(name, extensions=SHADOW) for name in ("good", "bad")]
    metrics = metrics_of(*map(result_of, [target_of("live"), *targets]))
    views = views_of(metrics, Health(), record=None if folder is None else DirectoryRecord(folder))
    with serving(views) as listener:
        yield f"http://{HOST}:{listener.port}"


def ran(*arguments: object) -> tuple[int, str, str]:
    return run("agreement", *map(str, arguments))


def shares(text: str) -> list[tuple[str, str]]:
    """Return the share and the times of each kind of agreement."""
    return re.findall(r"^  .* (\S+ %)  (\S.*)$", text, re.MULTILINE)


def begins(text: str) -> list[str]:
    """Return the local times at which the disagreements of a text begin."""
    return re.findall(r"^  2026-01-01 (\S+)\+01:00, ", text, re.MULTILINE)


def test_the_worst_target_is_first_and_the_state_of_the_move_is_last(folder: Path) -> None:
    with daemon(folder) as url:
        code, out, _ = ran("--url", url)
    assert code == 1
    bad, _, good = out.partition(GOOD_KEY)
    assert bad.startswith(f"{BAD_KEY}: ")
    head, rest = bad.split(" 13 min 20 s\n")
    assert_parts(head, "71.6 %", "20 min 0 s", "9 here", "8 there", "1 min 40 s", "maxReplicas")
    assert shares(bad) == [
        ("66.6 %", "13 min 20 s"),
        ("5 %", "1 min 0 s, 1 time, at most 1 min 0 s"),
        ("28.3 %", "5 min 40 s, 4 times, at most 1 min 40 s"),
    ]
    assert begins(rest) == ["01:16:40", "01:20:00"]
    assert_parts(rest, "1 min 40 s", "9 here", "8 there", "maxReplicas", "2 shorter")
    assert_parts(good, "100 %", f"autoscaler adopt {GOOD_KEY}")
    assert shares(good) == [("100 %", "1 h 23 min")]
    assert_parts(good.splitlines()[-1], "1 of 3", "2 in shadow")


def test_a_named_target_has_all_disagreements_of_the_time(folder: Path) -> None:
    with daemon(folder) as url:
        code, out, _ = ran("--url", url, "shop/bad")
        shorter = ran("--url", url, "--since", f"{9000 - 1440}s", "shop/bad")[1]
    assert code == 1
    assert begins(out) == ["01:16:40", "01:20:00", "01:23:20", "01:26:40"]
    assert ("64.7 %", "1 min 50 s, 2 times, at most 1 min 10 s") in shares(shorter)


def test_the_exit_code_is_0_only_if_all_targets_are_ready(folder: Path) -> None:
    with daemon(folder) as url:
        assert ran("--url", url, "shop/good")[0] == 0
        assert ran("--url", url, "shop/good", "shop/bad")[0] == 1


def test_json_has_everything(folder: Path) -> None:
    with daemon(folder) as url:
        code, out, _ = ran("--url", url, "-o", "json")
    agreement = json.loads(out)
    assert (code, agreement["live"], agreement["shadow"]) == (1, 1, 2)
    (bad,) = [target for target in agreement["targets"] if target["verdict"] == "differs"]
    assert len(bad["disagreements"]) == 4


def test_a_directory_has_the_targets_that_are_still_in_shadow(tmp_path: Path) -> None:
    for timeline, last in (
        (Timeline(SPEC, extensions=SHADOW), "0 of 1 "),
        (Timeline(SPEC), "no target"),
    ):
        for file in tmp_path.glob("record.*"):
            file.unlink()
        with recording(tmp_path) as recorder:
            record(recorder, timeline, {0: 30})
        record_with(tmp_path, stretch(0, 5000))
        assert ran("--state-directory", tmp_path)[1].splitlines()[-1].startswith(last)
    _, out, note = ran("--state-directory", tmp_path, "shop/web")
    assert shares(out) == [("100 %", "1 h 23 min")]
    assert str(tmp_path) in note


def test_agreement_fails_without_a_comparison(tmp_path: Path) -> None:
    views = views_of(metrics_of(result_of(target_of("live"))), Health())
    with serving(views) as listener:
        code, out, _ = ran("--url", f"http://{HOST}:{listener.port}")
    assert (code, out.startswith("no target")) == (1, True)
    with daemon(tmp_path) as url:
        _, out, _ = ran("--url", url, "-o", "json")
        assert {target["verdict"] for target in json.loads(out)["targets"]} == {"notCompared"}
        assert ran("--url", url)[0] == 1
    code, out, error = ran("--state-directory", tmp_path)
    assert (code, out) == (1, "")
    assert str(tmp_path) in error


def test_an_unknown_target_is_refused(folder: Path) -> None:
    with daemon(folder) as url:
        code, _, error = ran("--url", url, "shop/goood")
    assert code == 2
    assert_parts(error, "goood", "shop/good?")
