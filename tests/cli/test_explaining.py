"""`autoscaler explain` and `history`: what they print of a record in a file, and of a daemon's."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler import clock
from autoscaler.adapters.record import DirectoryRecord
from autoscaler.cli import app, explaining
from autoscaler.core.decision import Decision
from autoscaler.core.entry import Entry, recompute
from autoscaler.daemon.recording import Recorder
from autoscaler.rendering.instant import change_json, explanation_at, explanation_json
from tests.adapters.record.recording import running
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.daemon.api.serving import serving, views_of
from tests.daemon.exposition.results import metrics_of, result_of, target_of
from tests.daemon.exposition.test_listener import HOST
from tests.record.memory import synced

WEB = "shop/Deployment/web"
NOW = BASE + 3600
Ran = tuple[int, str, str]


@pytest.fixture(autouse=True)
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    monkeypatch.setattr(clock, "wall", lambda: NOW)
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a state directory: 3 at 00:00 (01:00 in Berlin), 5 at 00:02, by hand 4 at 00:10."""
    directory = tmp_path_factory.mktemp("state")
    timeline = Timeline(spec(external(average("10"))), replicas=3)
    with running(directory) as writer:
        recorder = Recorder(writer)
        first = synced(timeline.at("0s", queue=30))
        recorder.configure([first.target], timeline.flags)
        recorder.report(first)
        for at, queue in (("60s", 31), ("120s", 50), ("135s", 50)):
            recorder.report(synced(timeline.at(at, queue=queue)))
        timeline.by_hand(4, "kubectl\x1b[31m")
        recorder.report(synced(timeline.at("600s", queue=50)))
    return directory


def ran(*arguments: str) -> Ran:
    """Run the command; return its exit code and what it printed to either stream."""
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


@contextmanager
def daemon_of(directory: Path) -> Iterator[str]:
    """Run the API of a daemon with this record; give its address."""
    metrics = metrics_of(result_of(target_of("web")))
    with serving(views_of(metrics, record=DirectoryRecord(directory))) as listener:
        yield f"http://{HOST}:{listener.port}"


# -- explain -------------------------------------------------------------------------------------


def test_the_decision_that_held_is_explained_as_plan_does(kept: Path) -> None:
    """With local times, when it was decided and until when it held."""
    code, out, err = ran("explain", "shop/web", "--at", "01:03", "--state-directory", str(kept))
    assert (code, err) == (0, f"from the record in {kept}; times are in CET (UTC+01:00)\n")
    lines = out.splitlines()
    assert lines[:5] == [
        f"{WEB} at 01:02:15: stays at 5 replicas",
        "  scale       5 replicas in spec, 5 in status; minReplicas 1, maxReplicas 100",
        "  metric 1    External queue, target 10 per replica",
        "              query: sum(m0)",
        "              measured 10 per replica, 50 in total, 1 series",
    ]
    assert "  held        decided at 01:02:15, and it held until 01:10:00" in lines


def test_a_decision_of_another_day_has_its_date(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked at the day after."""
    monkeypatch.setattr(clock, "wall", lambda: NOW + 86400)
    asked = ("explain", "shop/web", "--at", "yesterday 01:03", "--state-directory", str(kept))
    out = ran(*asked)[1]
    assert out.startswith(f"{WEB} at 2026-01-01 01:02:15: ")
    assert out.count("2026-01-01") == 1  # the other times are in the same day


def test_a_daemon_gives_the_same_explanation(kept: Path) -> None:
    """Also of the last change, and of all since a time."""
    with daemon_of(kept) as url:
        for asked in (["--at", "01:03"], ["--last-change"], ["--since", "2h"], ["-o", "json"], []):
            of_file = ran("explain", "shop/web", *asked, "--state-directory", str(kept))
            of_daemon = ran("explain", "shop/web", *asked, "--url", url)
            assert of_file[0] == 0
            assert of_daemon[:2] == of_file[:2]
            assert of_daemon[2] in {
                of_file[2].replace(f"the record in {kept}", f"the daemon at {url}"),
                "",
            }


def test_the_last_change_is_that_of_the_count(kept: Path) -> None:
    """By hand at 00:10, and none after it."""
    code, out, _ = ran("explain", "shop/web", "--last-change", "--state-directory", str(kept))
    assert code == 0
    assert out.startswith(f"{WEB} at 01:10:00: ")
    assert "\x1b" not in out


def test_json_is_that_of_the_api(kept: Path) -> None:
    """A list, since several may be asked for."""
    asked = ["explain", "shop/web", "--at", "2026-01-01T00:03:00Z", "-o", "json"]
    code, out, err = ran(*asked, "--state-directory", str(kept))
    assert (code, err) == (0, "")
    found = explanation_at(DirectoryRecord(kept), WEB, BASE + 180.999)
    assert found is not None
    assert json.loads(out) == json.loads(json.dumps([explanation_json(found)]))


def test_each_change_since_a_time_begins_with_what_held_then(kept: Path) -> None:
    """The one of 00:00 held at 00:01, and held on."""
    asked = ("explain", "shop/web", "--since", "01:01", "--state-directory", str(kept))
    code, out, _ = ran(*asked)
    first = [text.split(": ")[0] for text in out.split("\n\n")]
    times_of_day = ("01:00:00", "01:02:00", "01:02:15", "01:10:00")
    assert (code, first) == (0, [f"{WEB} at {one}" for one in times_of_day])


def test_a_decision_is_made_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said whether the result is the same; another one is a failure."""
    asked = ("explain", "shop/web", "--recompute", "--state-directory", str(kept))
    code, out, _ = ran(*asked)
    same = "  recomputed  decided again from what was read then: the same result"
    assert (code, out.splitlines()[-1]) == (0, same)
    code, out, _ = ran(*asked, "-o", "json")
    assert (code, json.loads(out)[0]["recomputed"]) == (0, True)

    def otherwise(entry: Entry) -> Decision:
        return replace(recompute(entry), desired=7)

    monkeypatch.setattr(explaining, "recompute", otherwise)
    code, out, _ = ran(*asked)
    assert code == 1
    assert "another result, 7 replicas instead of 5; was it decided by another version?" in out
    with daemon_of(kept) as url:
        code, out, err = ran("explain", "shop/web", "--recompute", "--url", url)
    assert (code, out) == (2, "")
    assert err == "--recompute reads a state directory: give --state-directory or -c\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["shop/wbe"], 2, "no target is called shop/wbe; did you mean shop/web?"),
        (["shop/web", "--at", "5/6"], 2, "'5/6' is no time; write it as in: "),
        (["shop/web", "--at", "tomorrow"], 2, "which has not come yet"),
        (["shop/web", "--at", "yesterday 18:00"], 1, "nothing is recorded of shop/web at 2025-12-"),
        (
            ["shop/web", "--at", "1h", "--last-change"],
            2,
            "give only one of --at, --last-change and",
        ),
        (["shop/web", "--token-file", "x"], 2, "certificates, tokens and passwords are for"),
        (["shop/web", "--url", "http://h"], 2, "give --url or --state-directory"),
    ],
)
def test_what_cannot_be_explained_is_said(
    kept: Path, arguments: list[str], code: int, sentence: str
) -> None:
    """On standard error, and nothing is printed to the other."""
    ended, out, err = ran("explain", *arguments, "--state-directory", str(kept))
    assert (ended, out) == (code, "")
    assert sentence in err


def test_where_nothing_is_recorded_it_is_said(tmp_path: Path) -> None:
    """Of a directory, and of a daemon that is away."""
    for command in (["explain", "shop/web"], ["history"], ["status"]):
        code, out, err = ran(*command, "--state-directory", str(tmp_path))
        assert (code, out) == (1, "")
        assert err == f"nothing is recorded in {tmp_path}: there is no record.db\n"
        code, out, err = ran(*command, "--url", "http://127.0.0.1:1")
        assert (code, out) == (1, "")
        assert err.startswith("no daemon listens at http://127.0.0.1:1; start it with ")


# -- history and status --------------------------------------------------------------------------


def test_history_has_a_line_for_each_change(kept: Path) -> None:
    """The first one first, with tabs in a pipe; a daemon gives the same."""
    code, out, _ = ran("history", "--state-directory", str(kept))
    above = "queue above target"
    assert (code, [line.split("\t") for line in out.splitlines()]) == (
        0,
        [
            ["2026-01-01 01:00:00+01:00", WEB, "3", "ok", "stays at 3 replicas"],
            [
                *("2026-01-01 01:02:00+01:00", WEB, "3 -> 5", "ok"),
                f"scaled 3 -> 5 replicas: {above}: 16.67/10 per replica",
            ],
            ["2026-01-01 01:02:15+01:00", WEB, "5", "ok", "stays at 5 replicas"],
            [
                *("2026-01-01 01:10:00+01:00", WEB, "4 -> 5", "ok"),
                f"scaled 4 -> 5 replicas: {above}: 12.5/10 per replica",
            ],
        ],
    )
    with daemon_of(kept) as url:
        assert ran("history", "--url", url)[:2] == (0, out)
        assert ran("history", "shop/web", "--limit", "2", "--url", url)[1] == "".join(
            out.splitlines(keepends=True)[2:]
        )


def test_history_is_of_a_span_and_at_most_so_many(kept: Path) -> None:
    """Those that are left out are the first ones, which is said."""
    place = ("--state-directory", str(kept))
    code, out, err = ran("history", "--limit", "1", *place)
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("2026-01-01 01:10:00")
    assert err.endswith("there are more than the 1 of --limit; the last ones are shown\n")
    _, out, _ = ran("history", "shop/web", "--since", "01:01", "--until", "01:05", *place)
    assert [line[11:19] for line in out.splitlines()] == ["01:02:00", "01:02:15"]
    code, out, err = ran("history", "--since", "10m", *place)
    assert (code, out) == (0, "")
    assert err.endswith("no change is recorded since 2026-01-01 01:50:00+01:00\n")
    code, out, err = ran("history", "--since", "now", "--until", "1h", *place)
    assert (code, out) == (2, "")
    assert "is after --until" in err
    _, out, _ = ran("history", "-o", "json", *place)
    found = DirectoryRecord(kept).changes(None, 0, NOW, limit=10)[::-1]
    assert json.loads(out) == [change_json(one) for one in found]


def test_status_of_a_directory_is_what_was_recorded_last(kept: Path) -> None:
    """It says as of when."""
    code, out, err = ran("status", "--state-directory", str(kept))
    assert (code, out.splitlines()[1].split("\t")[:5]) == (
        0,
        [WEB, "queue: 12.5/10", "1", "100", "4 -> 5"],
    )
    assert err.startswith(f"from the record in {kept}, as it was at 2026-01-01 01:")
