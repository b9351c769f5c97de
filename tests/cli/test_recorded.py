"""Where `explain`, `history` and `status` read, what is wrong there, and which options fit."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.adapters.record import DirectoryRecord
from autoscaler.cli import app
from autoscaler.core.spec import Flags
from autoscaler.core.target import Target
from autoscaler.daemon import api
from autoscaler.daemon.recording import Recorder
from tests.adapters.prometheus.certificates import NEW
from tests.adapters.record.recording import Time, running
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.daemon.api.serving import serving, views_of
from tests.daemon.exposition.results import metrics_of, result_of, target_of
from tests.daemon.test_web import AUTH, TLS, listening
from tests.record.memory import synced

TARGET = "shop/Deployment/web"
JOBS = spec(external(average("5"), "jobs_waiting"))

Run = Callable[..., tuple[int, str]]
"""Runs a command where to read is given; returns the exit code, and all that was printed."""


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory in which some minutes of one target are recorded."""
    directory = tmp_path_factory.mktemp("state")
    with running(directory) as writer:
        recorder = Recorder(writer)
        recorder.configure([Target("shop", JOBS, ())], Flags())
        timeline = Timeline(JOBS, replicas=7)
        for second, jobs in ((0, 35.0), (15, 36.0), (30, 60.0), (45, 20.0), (60, 21.0), (75, None)):
            recorder.report(synced(timeline.at(f"{second}s", jobs_waiting=jobs)))
        timeline.by_hand(9, "kubectl-edit")
        recorder.report(synced(timeline.at("90s", jobs_waiting=45)))
    return directory


@pytest.fixture(params=["--state-directory", "--url"])
def run(request: pytest.FixtureRequest, state: Path) -> Iterator[Run]:
    """Run commands on the directory itself, and on a daemon that has it."""
    if request.param == "--state-directory":
        yield lambda *arguments: invoked(*arguments, "--state-directory", str(state))
        return
    views = views_of(metrics_of(result_of(target_of("web"))), record=DirectoryRecord(state))
    with serving(views) as listener:
        url = f"http://127.0.0.1:{listener.port}"
        yield lambda *arguments: invoked(*arguments, "--url", url)


def invoked(*arguments: str) -> tuple[int, str]:
    """Run a command."""
    done = CliRunner().invoke(app, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_what_nobody_knows_is_said(run: Run) -> None:
    """A target, and an instant before all others."""
    code, said = run("explain", "shop/wbe")
    assert (code, said.strip()) == (2, "no target is called shop/wbe; did you mean shop/web?")
    code, said = run("explain", TARGET, "--at", "2025-12-31")
    assert code == 1
    assert said.startswith(
        f"nothing is recorded of {TARGET} at 2025-12-31 00:00:00+00:00 or before"
    )
    code, said = run("explain", TARGET, "--at", "soonish")
    assert code == 2
    assert said.startswith("'soonish' is no time; write it as in: ")


def test_a_daemon_cannot_be_asked_to_compute_again() -> None:
    """What it was decided from is in the directory."""
    views = views_of(metrics_of(result_of(target_of("web"))))
    with serving(views) as listener:
        code, said = invoked(
            "explain", TARGET, "--recompute", "--url", f"http://127.0.0.1:{listener.port}"
        )
    assert code == 1
    assert ": the record is off: `record` is null\n" in said


def test_the_state_directory_shows_the_fleet_as_it_was(state: Path, tmp_path: Path) -> None:
    """Where no daemon answers, `status` says until when it knows."""
    code, said = invoked("status", "--state-directory", str(state))
    assert code == 0
    assert f"{TARGET}\tjobs_waiting: " in said
    file = tmp_path / "autoscaler.yaml"
    file.write_text(
        "prometheus: {url: http://127.0.0.1:9}\nlisten: 127.0.0.1:9\n"
        f"stateDirectory: {state}\ntargets: []\n"
    )
    code, said = invoked("status", "-c", str(file))
    assert code == 0
    assert "no daemon listens at http://127.0.0.1:9; what is shown was recorded until " in said
    code, said = invoked("explain", TARGET, "--last-change", "-c", str(file))
    assert code == 0


@pytest.mark.parametrize("command", [("explain", TARGET), ("history",), ("status",)])
def test_a_directory_without_a_record_is_an_error(command: tuple[str, ...], tmp_path: Path) -> None:
    """It names the directory."""
    code, said = invoked(*command, "--state-directory", str(tmp_path))
    assert code == 1
    assert str(tmp_path) in said
    assert "Traceback" not in said


def test_a_damaged_record_is_an_error(state: Path, tmp_path: Path) -> None:
    """Of one entry all that is left is shown; of a file that is no database a sentence."""
    with (
        closing(sqlite3.connect(state / "record.db")) as source,
        closing(sqlite3.connect(tmp_path / "record.db")) as copy,
    ):
        source.backup(copy)
        copy.execute("UPDATE changes SET body = x'00'")
        copy.commit()
    code, said = invoked(
        "explain", TARGET, "--at", "2026-01-01T00:00:40Z", "--state-directory", str(tmp_path)
    )
    assert code == 0
    assert "scaled 7 -> 12 replicas" in said
    assert "there is no more of it: " in said
    (tmp_path / "record.db").write_bytes(b"no database " * 1000)
    for companion in ("record.db-wal", "record.db-shm"):
        (tmp_path / companion).unlink(missing_ok=True)
    code, said = invoked("history", "--state-directory", str(tmp_path))
    assert code == 1
    assert "record.db" in said


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (("--at", "1h", "--last-change"), "give only one of --at, --last-change and --since"),
        (("--token-file", "t"), "certificates, tokens and passwords are for --url or -c"),
        (("--url", "http://a", "--user", "me"), "--user and --password-file go together"),
        (("--url", "http://a", "--key-file", "k"), "--key-file goes with --cert-file"),
        (("--url", "ftp://a"), "it must be an address such as http://127.0.0.1:9191"),
    ],
)
def test_options_that_do_not_go_together_are_named(options: tuple[str, ...], advice: str) -> None:
    """Before anything is read."""
    code, said = invoked("explain", TARGET, *options)
    assert code == 2
    assert advice in " ".join(said.replace("│", " ").split())


def test_a_secret_stays_in_its_file(tmp_path: Path) -> None:
    """A token that cannot be is named by its file only."""
    token = tmp_path / "token"
    token.write_text("hunter2\x07")
    code, said = invoked("history", "--url", "http://127.0.0.1:9", "--token-file", str(token))
    assert code == 1
    assert str(token) in said
    assert "hunter2" not in said


def test_a_daemon_is_asked_over_tls_by_who_signs_in(state: Path, tmp_path: Path) -> None:
    """With a token or a password from a file; without, and with another CA, a sentence says why."""
    views = views_of(metrics_of(result_of(target_of("web"))), record=DirectoryRecord(state))
    text = f"listen: 127.0.0.1:0\nweb: {{{TLS}, {AUTH}}}"
    (tmp_path / "password").write_text(NEW)
    (tmp_path / "wrong").write_text("wrong")
    with listening(tmp_path, text, api.routes(lambda: views)) as daemon:
        (url,) = daemon.urls()
        trusting = ("--url", url, "--ca-file", str(tmp_path / "server.crt"))
        token = ("--token-file", str(tmp_path / "token"))
        password = ("--user", "alice", "--password-file", str(tmp_path / "password"))
        for command in (("explain", TARGET, "--last-change"), ("history",), ("status",)):
            for signing in (token, password):
                code, said = invoked(*command, *trusting, *signing)
                assert code == 0, said
            code, said = invoked(*command, *trusting)
            assert code == 1
            assert f"the daemon at {url} wants you to sign in: give --token-file" in said
            code, said = invoked(*command, *trusting, "--token-file", str(tmp_path / "wrong"))
            assert (code, "refuses what you signed in with" in said) == (1, True)
            code, said = invoked(*command, "--url", url, *token)
            assert code == 1
            assert f"TLS with the daemon at {url} failed: " in said
        file = tmp_path / "asked.yaml"
        file.write_text(
            f"prometheus: {{url: http://p}}\nlisten: {url.removeprefix('https://')}\n"
            f"stateDirectory: null\nweb: {{{TLS}}}\ntargets: []\n"
        )
        for command in (("history",), ("status",)):
            code, said = invoked(*command, "-c", str(file), *trusting[2:], *token)
            assert code == 0, said


def test_a_time_that_the_history_prints_is_the_one_to_ask_for(tmp_path: Path) -> None:
    """Though decisions are taken within a second, and times are printed without its parts."""
    with running(tmp_path) as writer:
        recorder = Recorder(writer)
        recorder.configure([Target("shop", JOBS, ())], Flags())
        timeline = Timeline(JOBS, replicas=7)
        for second, jobs in ((0.295, 35.0), (1.295, 60.0), (1.795, 60.0)):
            recorder.report(synced(timeline.at(f"{second}s", jobs_waiting=jobs)))
    place = ("--state-directory", str(tmp_path))
    for time_of_day, expected in (("00:00:00", "stays at 7"), ("00:00:01", "stays at 12")):
        code, said = invoked("explain", TARGET, "--at", f"2026-01-01 {time_of_day}", *place)
        assert (code, f"{time_of_day}: {expected} replicas" in said) == (0, True), said
    code, said = invoked("history", "--since", "2026-01-01", "--until", "2026-01-01 00:00", *place)
    assert (code, said.count(TARGET)) == (0, 1)
    code, said = invoked("explain", TARGET, "--at", "2026-01-01 00:00:01.295", *place)
    assert "scaled 7 -> 12 replicas" in said


def test_the_history_says_when_nothing_was_recorded(tmp_path: Path) -> None:
    """Between the changes of two runs of the daemon, from the directory and over the API."""
    clock = Time()
    for begin in (0, 600):
        clock.now = BASE + begin
        with running(tmp_path, time=clock) as writer:
            recorder = Recorder(writer)
            recorder.configure([Target("shop", JOBS, ())], Flags())
            timeline = Timeline(JOBS, replicas=7)
            recorder.report(synced(timeline.at(f"{begin}s", jobs_waiting=35.0)))
    views = views_of(metrics_of(result_of(target_of("web"))), record=DirectoryRecord(tmp_path))
    with serving(views) as listener:
        for place in (
            ("--state-directory", str(tmp_path)),
            ("--url", f"http://127.0.0.1:{listener.port}"),
        ):
            code, said = invoked("history", "--since", "2026-01-01", *place)
            lines = [line.split("\t") for line in said.splitlines() if "\t" in line]
            assert code == 0
            assert [line[0][11:19] for line in lines] == ["00:00:00", "00:00:00", "00:10:00"]
            assert lines[1][4] == "nothing was recorded until 2026-01-01 00:10:00+00:00"


def test_what_was_not_recorded_any_more_is_not_said_to_hold(state: Path) -> None:
    """The last decision held when it was recorded; months later nobody knows."""
    code, said = invoked("explain", TARGET, "--state-directory", str(state))
    assert code == 0
    assert "and it held when it was last recorded, at 00:01:30\n" in said
    assert "nothing was recorded from 00:01:30 on; this is the last decision" in said
    assert "still holds" not in said


def test_a_secret_is_not_sent_in_clear(tmp_path: Path) -> None:
    """But to this machine, as through `kubectl port-forward`."""
    token = tmp_path / "token"
    token.write_text("hunter2")
    arguments = ("history", "--token-file", str(token), "--url")
    code, said = invoked(*arguments, "http://192.0.2.1:9191")
    assert (code, f"what is in {token} is sent over https only" in said) == (1, True)
    code, said = invoked(*arguments, "http://127.0.0.1:9")
    assert (code, "no daemon listens at http://127.0.0.1:9; " in said) == (1, True)
