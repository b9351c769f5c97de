"""`autoscaler explain`, `history` and `status`: what they print of a record."""

import json
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.cli import recorded, sources
from autoscaler.cli.sources import NotRunningError
from autoscaler.core.decision import Decision
from autoscaler.core.step import recompute
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.recording import Recorder
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.persistence.record import DirectoryRecord, RecordWriter
from autoscaler.rendering.instant import change_of, explanation_at
from autoscaler.web import api
from tests.adapters.record.recording import Time, running
from tests.cli.refusals import assert_refused
from tests.cli.test_commands import ran
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.daemon.test_listeners import AUTH, TLS, listening
from tests.narrowing import assert_parts, known
from tests.tables import rows
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import serving, views_of
from tests.web.test_listener import HOST
from tests.worlds.daemon import write_config
from tests.worlds.prometheus.web_config import NEW
from tests.worlds.record import synced

WEB = "shop/Deployment/web"
NOW = BASE + 3600
Source = tuple[str, str]
Take = Callable[[Iterable[bytes]], object]


@pytest.fixture(autouse=True)
def _now_in_berlin(in_berlin: Callable[[float], None]) -> None:
    in_berlin(NOW)


def three() -> Timeline:
    """Begin a target of three replicas, each for 10 messages."""
    return Timeline(spec(external(average("10"))), replicas=3)


def record(writer: RecordWriter, timeline: Timeline, queue: Mapping[float, float]) -> Recorder:
    """Record syncs at some seconds with so many messages."""
    recorder = Recorder(writer)
    for second, messages in queue.items():
        done = synced(timeline.sync(f"{second}s", queue=messages))
        recorder.configure([done.target], timeline.flags)
        recorder.report(done)
    return recorder


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a state directory: 3 at 00:00 (01:00 in Berlin), 5 at 00:02, by hand 4 at 00:10."""
    directory, timeline = tmp_path_factory.mktemp("state"), three()
    with running(directory) as writer:
        recorder = record(writer, timeline, {0: 30, 60: 31, 120: 50, 135: 50})
        timeline.by_hand(4, "kubectl\x1b[31m")
        recorder.report(synced(timeline.sync("600s", queue=50)))
    return directory


def read(source: Path | Source, command: str) -> tuple[int, str, str]:
    """Run a command with the record of a state directory, or these options."""
    options = ("--state-directory", str(source)) if isinstance(source, Path) else source
    return ran(*shlex.split(command), *options)


@contextmanager
def daemon_of(directory: Path, *leaders: ClusterLeader) -> Iterator[str]:
    """Run the API of a daemon with this record; give its address."""
    metrics, stored = metrics_of(result_of(target_of("web"))), DirectoryRecord(directory)
    with serving(views_of(metrics, record=stored, leaders=leaders)) as listener:
        yield f"http://{HOST}:{listener.port}"


@pytest.fixture(params=["directory", "daemon"])
def source(request: pytest.FixtureRequest, state: Path) -> Iterator[Source]:
    """Give the options of both sources of a record, from which commands print the same."""
    with daemon_of(state) as url:
        daemon = request.param == "daemon"
        yield ("--url", url) if daemon else ("--state-directory", str(state))


# -- explain -------------------------------------------------------------------------------------


def test_the_decision_in_force_is_explained_with_local_times(source: Source) -> None:
    code, out, err = read(source, "explain shop/web --at 01:03")
    first, heading, scale, metric, *_ = out.splitlines()
    assert (code, heading) == (0, "Decision")
    assert_parts(err, source[1], "CET (UTC+01:00)")
    assert_parts(first, f"{WEB} at 01:02:15: ", "(5)")
    assert_parts(scale, "5 replicas", "maxReplicas 100")
    assert_parts(metric, "queue", "10")


def test_a_decision_of_another_day_is_dated(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "wall", lambda: NOW + 86400)
    out = read(source, "explain shop/web --at 'yesterday 01:03'")[1]
    assert out.startswith(f"{WEB} at 2026-01-01 01:02:15: ")
    assert out.count("2026-01-01") == 1  # the other times are in the same day


OTHER = ClusterLeader("", leading=False, holder="b_2", url="http://b:9191")
OWN = ClusterLeader("", leading=True, holder="a_1")


COMMANDS = ("explain shop/web", "history", "history shop/web")
SEVERAL = (replace(OWN, cluster="eu"), replace(OTHER, cluster="us"))


@pytest.mark.parametrize(
    ("command", "leaders", "parts"),
    [
        *[(command, (OTHER,), ["standby", "b_2", "http://b:9191"]) for command in COMMANDS],
        *[(command, (OWN,), []) for command in COMMANDS],
        ("history", SEVERAL, ["us: ", "b_2", "http://b:9191"]),
    ],
)
def test_another_leader_of_the_clusters_is_named(
    state: Path, command: str, leaders: tuple[ClusterLeader, ...], parts: list[str]
) -> None:
    """It has recorded what this daemon did not write itself."""
    with daemon_of(state, *leaders) as url:
        code, out, err = read(("--url", url), command)
    assert (code, err.count("\n"), "b_2" in out) == (0, 1 + bool(parts), False)
    assert_parts(err, *parts)


def test_the_last_change_and_all_since_a_time_are_explained(source: Source) -> None:
    code, out, _ = read(source, "explain shop/web --last-change")
    assert (code, "\x1b" in out) == (0, False)
    assert out.startswith(f"{WEB} at 01:10:00: ")
    code, out, _ = read(source, "explain shop/web --since 01:01")
    heads = [text.split(": ")[0] for text in out.split("\n\n")]
    times_of_day = ("01:00:00", "01:02:00", "01:02:15", "01:10:00")
    assert (code, heads) == (0, [f"{WEB} at {item}" for item in times_of_day])


def test_the_json_of_an_explanation_is_the_one_of_the_api(source: Source, state: Path) -> None:
    code, out, err = read(source, "explain shop/web --at 2026-01-01T00:03:00Z -o json")
    expected = known(explanation_at(DirectoryRecord(state), WEB, BASE + 180.999))
    assert (code, json.loads(out), err) == (0, [expected.document()], "")


@pytest.mark.parametrize("same", [True, False])
def test_a_recomputed_decision_with_another_result_is_a_failure(
    state: Path, monkeypatch: pytest.MonkeyPatch, *, same: bool
) -> None:
    def otherwise(entry: SyncResult) -> Decision:
        return replace(recompute(entry), desired=7)

    if not same:
        monkeypatch.setattr(recorded, "recompute", otherwise)
    command = "explain shop/web --recompute"
    code, out, _ = read(state, command)
    heading, last = out.splitlines()[-2:]
    assert (code, heading) == (int(not same), "Recomputed")
    assert ("7 replicas" in last) is not same
    code, out, _ = read(state, f"{command} -o json")
    assert (code, json.loads(out)[0]["recomputed"]) == (int(not same), same)


def test_a_daemon_cannot_recompute_a_decision(state: Path) -> None:
    with daemon_of(state) as url:
        refused = read(("--url", url), "explain shop/web --recompute")
    assert_refused(refused, 2, "--recompute", "--state-directory")


@pytest.mark.parametrize(
    ("command", "code", "part"),
    [
        ("explain shop/wbe", 2, " shop/web?"),
        ("explain shop/web --at 5/6", 2, "'5/6'"),
        ("explain shop/web --at tomorrow", 2, "2026-01-02"),
        ("explain shop/web --at 'yesterday 18:00'", 1, "shop/web at 2025-12-"),
        ("history --since now --until 1h", 2, "--until, 2026-01-01 01:00"),
    ],
)
def test_a_wrong_name_or_time_fails(source: Source, command: str, code: int, part: str) -> None:
    assert_refused(read(source, command), code, part)


def test_without_a_record_a_command_fails(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:1"
    for command in ("explain shop/web", "history", "status"):
        assert_refused(read(tmp_path, command), 1, f"{tmp_path}: ", "record.db")
        refused = read(("--url", nowhere), command)
        assert_refused(refused, 1, nowhere, NotRunningError.advice)
    with serving(views_of(metrics_of(result_of(target_of("web"))))) as listener:
        result = ran("explain", WEB, "--url", f"http://{HOST}:{listener.port}")
    assert_refused(result, 1, "`record` is null")


def test_a_damaged_record_is_an_error(state: Path, tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(state / "record.db")) as source,
        closing(sqlite3.connect(tmp_path / "record.db")) as copy,
    ):
        source.backup(copy)
        copy.execute("UPDATE changes SET body = x'00'")
        copy.commit()
    code, out, _ = read(tmp_path, f"explain {WEB} --at 01:02")
    assert code == 0
    assert_parts(out, "3 -> 5", "cannot be read: ")
    (tmp_path / "record.db").write_bytes(b"no database " * 1000)
    for companion in ("record.db-wal", "record.db-shm"):
        (tmp_path / companion).unlink(missing_ok=True)
    assert_refused(read(tmp_path, "history"), 1, "record.db")


def test_the_last_decision_is_valid_only_until_it_was_last_recorded(source: Source) -> None:
    code, out, _ = read(source, f"explain {WEB}")
    assert code == 0
    assert_parts(out, "last recorded, at 01:10:00\n", "recorded from 01:10:00")
    assert "still valid" not in out


# -- history and status --------------------------------------------------------------------------


HISTORY = r"""
01:00:00 | 3
01:02:00 | 3 -> 5
01:02:15 | 5
01:10:00 | 5 -> 4 by kubectl\x1b[31m, then 4 -> 5
"""


def test_history_has_a_line_for_each_change_in_order(source: Source, state: Path) -> None:
    stored = DirectoryRecord(state)
    changes = [change_of(row, stored) for row in stored.changes(None, 0, NOW, limit=10)[::-1]]
    code, out, _ = read(source, "history")
    assert (code, [line.split("\t") for line in out.splitlines()]) == (
        0,
        [
            [f"2026-01-01 {time_of_day}+01:00", WEB, count, "ok", change.message]
            for (time_of_day, count), change in zip(rows(HISTORY), changes, strict=True)
        ],
    )
    json_out = read(source, "history -o json")[1]
    assert json.loads(json_out) == [change.document() for change in changes]


@pytest.mark.parametrize(
    ("options", "times_of_day", "parts"),
    [
        ("--limit 1", ["01:10:00"], [" 1 of --limit"]),
        ("shop/web --limit 2", ["01:02:15", "01:10:00"], [" 2 of --limit"]),
        ("--limit 4", ["01:00:00", "01:02:00", "01:02:15", "01:10:00"], []),
        ("shop/web --since 01:01 --until 01:05", ["01:02:00", "01:02:15"], []),
        ("--since 10m", [], ["since 2026-01-01 01:50:00+01:00"]),
    ],
)
def test_history_is_limited_to_a_span_and_a_number(
    source: Source, options: str, times_of_day: list[str], parts: list[str]
) -> None:
    code, out, err = read(source, f"history {options}")
    assert (code, [line[11:19] for line in out.splitlines()]) == (0, times_of_day)
    assert err.count("\n") == 1 + len(parts)
    assert_parts(err, *parts)


def test_status_of_a_directory_is_what_was_recorded_last(state: Path, tmp_path: Path) -> None:
    code, out, err = read(state, "status")
    cells = out.splitlines()[1].split("\t")[:5]
    assert (code, cells) == (0, [WEB, "queue: 12.5/10", "1", "100", "4 -> 5"])
    assert_parts(err, str(state), " 2026-01-01 01:")
    document = {"prometheus": {"url": "http://p"}, "listen": "127.0.0.1:9", "targets": []}
    file = write_config(tmp_path / "autoscaler.yaml", document | {"stateDirectory": str(state)})
    code, out, err = ran("status", "-c", str(file))
    assert (code, WEB in out) == (0, True)
    assert_parts(err, "http://127.0.0.1:9; ", " 2026-01-01 01:")
    assert ran("explain", WEB, "--last-change", "-c", str(file))[0] == 0


def test_a_time_that_the_history_prints_is_the_one_to_ask_for(tmp_path: Path) -> None:
    with running(tmp_path) as writer:
        record(writer, three(), {0.295: 15.0, 1.295: 60.0, 1.795: 60.0})
    for time_of_day, expected in (("00", "at 3"), ("01", "(6)"), ("01.295", "3 -> 6")):
        command = f"explain {WEB} --at '2026-01-01 01:00:{time_of_day}'"
        code, out, _ = read(tmp_path, command)
        assert code == 0
        assert_parts(out.splitlines()[0], f"01:00:{time_of_day[:2]}", expected)
    command = "history --since 2026-01-01 --until '2026-01-01 01:00'"
    code, out, _ = read(tmp_path, command)
    assert (code, out.count(WEB)) == (0, 1)


def test_the_history_has_a_line_for_the_time_without_a_record(tmp_path: Path) -> None:
    time = Time()
    for begin in (0, 600):
        time.now = BASE + begin
        with running(tmp_path, time=time) as writer:
            record(writer, three(), {begin: 15.0})
    with daemon_of(tmp_path) as url:
        for place in (tmp_path, ("--url", url)):
            code, out, _ = read(place, "history --since 2026-01-01")
            lines = [line.split("\t") for line in out.splitlines()]
            assert code == 0
            assert [line[0][11:19] for line in lines] == ["01:00:00", "01:00:00", "01:10:00"]
            assert lines[1][1:4] == ["-"] * 3
            assert lines[1][4].endswith(" 2026-01-01 01:10:00+01:00")


# -- a daemon ------------------------------------------------------------------------------------


def test_a_secret_stays_in_its_file_and_is_not_sent_in_clear(tmp_path: Path) -> None:
    token = tmp_path / "token"
    for text, url, part in (
        ("hunter2\x07", "http://127.0.0.1:9", str(token)),
        ("hunter2", "http://192.0.2.1:9191", "https"),
        ("hunter2", "http://127.0.0.1:9", "http://127.0.0.1:9; "),
    ):
        token.write_text(text)
        result = ran("history", "--token-file", str(token), "--url", url)
        assert_refused(result, 1, part)
        assert "hunter2" not in result[2]


def test_a_daemon_is_asked_over_tls_by_a_client_that_signs_in(state: Path, tmp_path: Path) -> None:
    views = views_of(metrics_of(result_of(target_of("web"))), record=DirectoryRecord(state))
    text = f"listen: 127.0.0.1:0\nweb: {{{TLS}, {AUTH}}}"
    (tmp_path / "password").write_text(NEW)
    (tmp_path / "wrong").write_text("wrong")
    with listening(tmp_path, text, api.routes(lambda: views)) as daemon:
        (url,) = daemon.urls()
        trusting = ("--url", url, "--ca-file", str(tmp_path / "server.crt"))
        token = ("--token-file", str(tmp_path / "token"))
        password = ("--user", "alice", "--password-file", str(tmp_path / "password"))
        for command in (("explain", WEB, "--last-change"), ("history",), ("status",)):
            for credentials in (token, password):
                assert ran(*command, *trusting, *credentials)[0] == 0
            for arguments, part in (
                (trusting, "--token-file"),
                ((*trusting, "--token-file", str(tmp_path / "wrong")), "refuses"),
                (("--url", url, *token), "TLS"),
            ):
                assert_refused(ran(*command, *arguments), 1, url, part)
        file = tmp_path / "asked.yaml"
        listen = f"listen: {url.removeprefix('https://')}\nweb: {{{TLS}}}\n"
        file.write_text(
            f"prometheus: {{url: http://p}}\n{listen}stateDirectory: null\ntargets: []\n"
        )
        for name in ("history", "status"):
            assert ran(name, "-c", str(file), *trusting[2:], *token)[0] == 0


HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\x9b"
SHOWN = r"\x1b[2J\x1b]0;owned\x07\u202e\x9b"


def hostile_page(daemon: object, path: str, take: Take, limits: object) -> object:  # noqa: ARG001
    """Answer as a daemon whose every text is hostile."""
    at, texts = "2026-01-01T00:00:00Z", [f"  stage  {HOSTILE}\n", HOSTILE]
    change = {"id": 1, "target": HOSTILE, "time": at, "state": HOSTILE, "message": HOSTILE}
    change |= {"currentReplicas": 1, "desiredReplicas": 2, "minReplicas": 1, "maxReplicas": 2}
    state = change | {"namespace": HOSTILE, "kind": HOSTILE, "name": HOSTILE, "metrics": []}
    state |= {"since": at, "lastSync": at}
    keys = [f"shop/Deployment/{name}" for name in ("a", HOSTILE)]
    answers: dict[str, object] = {
        "/targets": {"time": at, "targets": [state | {"target": key} for key in keys]},
        "/health": {
            "version": HOSTILE,
            "ready": True,
            "stalled": None,
            "leads": False,
            "components": [],
            "breakers": [],
            "record": {"on": True, "from": None, "to": None, "problem": None},
            "leaders": [{"leading": False, "holder": HOSTILE, "url": HOSTILE}],
        },
        "/changes": {"changes": [change | {"marks": [HOSTILE], "by": HOSTILE}]},
        "/targets/shop/Deployment/a/explanation": {
            **dict.fromkeys(("at", "time", "until", "recordedUntil"), at),
            **dict.fromkeys(("target", "state", "message"), HOSTILE),
            **dict.fromkeys(("lines", "values", "differences", "alternatives", "others"), texts),
            "decision": {HOSTILE: HOSTILE},
        },
    }
    return take([json.dumps(answers[path.removeprefix("/api/v1").partition("?")[0]]).encode()])


@pytest.mark.parametrize("form", ["", " -o json"])
@pytest.mark.parametrize("command", ["explain a", "explain shop/a", "history", "status"])
def test_texts_of_a_daemon_are_printable(
    command: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "read_page", hostile_page)
    _, out, err = ran(*f"{command}{form}".split(), "--url", "http://127.0.0.1:1")
    assert all(line.isprintable() or "\t" in line for line in (out + err).split("\n"))
    assert not set(HOSTILE) & set(out + err) & {"\x1b", "\x07", "\u202e", "\x9b"}
    if (command, form) == ("explain shop/a", ""):
        assert f"  stage  {SHOWN}" in [line.rstrip() for line in out.splitlines()]
