"""`autoscaler explain`, `history` and `status`: what they print of a record, and of a daemon's."""

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
from autoscaler.core.decision import Decision
from autoscaler.core.step import recompute
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.recording import Recorder
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.persistence.record import DirectoryRecord, RecordWriter
from autoscaler.rendering.instant import change_of, explanation_at
from autoscaler.web import api
from tests.adapters.record.recording import Time, running
from tests.cli.test_commands import ran
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.daemon.test_listeners import AUTH, TLS, listening
from tests.narrowing import known
from tests.tables import rows
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import serving, views_of
from tests.web.test_listener import HOST
from tests.worlds.prometheus.web_config import NEW
from tests.worlds.record import synced

WEB = "shop/Deployment/web"
NOW = BASE + 3600
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
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a state directory: 3 at 00:00 (01:00 in Berlin), 5 at 00:02, by hand 4 at 00:10."""
    directory, timeline = tmp_path_factory.mktemp("state"), three()
    with running(directory) as writer:
        recorder = record(writer, timeline, {0: 30, 60: 31, 120: 50, 135: 50})
        timeline.by_hand(4, "kubectl\x1b[31m")
        recorder.report(synced(timeline.sync("600s", queue=50)))
    return directory


def of_file(directory: Path, command: str) -> tuple[int, str, str]:
    """Run a command with the record of a state directory."""
    return ran(*shlex.split(command), "--state-directory", str(directory))


@contextmanager
def daemon_of(directory: Path) -> Iterator[str]:
    """Run the API of a daemon with this record; give its address."""
    metrics = metrics_of(result_of(target_of("web")))
    with serving(views_of(metrics, record=DirectoryRecord(directory))) as listener:
        yield f"http://{HOST}:{listener.port}"


# -- explain -------------------------------------------------------------------------------------


def test_the_decision_that_held_is_explained_as_plan_does(kept: Path) -> None:
    """With local times, when it was decided and until when it held."""
    code, out, err = of_file(kept, "explain shop/web --at 01:03")
    assert (code, err) == (0, f"from the record in {kept}; times are in CET (UTC+01:00)\n")
    lines = out.splitlines()
    assert lines[:4] == [
        f"{WEB} at 01:02:15: unchanged (5)",
        "Decision",
        "  scale          5 replicas in spec, 5 in status; minReplicas 1, maxReplicas 100",
        "  metric 1       External queue, target 10 per replica",
    ]


def test_a_decision_of_another_day_has_a_date(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at the day after."""
    monkeypatch.setattr(clock, "wall", lambda: NOW + 86400)
    out = of_file(kept, "explain shop/web --at 'yesterday 01:03'")[1]
    assert out.startswith(f"{WEB} at 2026-01-01 01:02:15: ")
    assert out.count("2026-01-01") == 1  # the other times are in the same day


def test_a_daemon_gives_the_same_explanation(kept: Path) -> None:
    """Also of the last change, of all since a time, and of what nobody knows."""
    asked = ("--at 01:03", "--last-change", "--since 2h", "-o json", "")
    of_web = [(0, ["shop/web", *check.split()]) for check in asked]
    with daemon_of(kept) as url:
        for code, options in (*of_web, (2, ["shop/wbe"]), (1, ["shop/web", "--at", "2025-12-31"])):
            of_file = ran("explain", *options, "--state-directory", str(kept))
            of_daemon = ran("explain", *options, "--url", url)
            assert (of_file[0], of_daemon[:2]) == (code, of_file[:2])
            told = of_file[2].replace(f"the record in {kept}", f"the daemon at {url}")
            assert of_daemon[2] in {told, ""}


def test_who_has_written_instead_of_the_daemon_is_told(kept: Path) -> None:
    """Where the rest is recorded; nothing is said of what the daemon leads, nor of a file."""
    metrics, record = metrics_of(result_of(target_of("web"))), DirectoryRecord(kept)
    other = ClusterLeader("", leading=False, holder="b_2", url="http://b:9191")
    own = ClusterLeader("", leading=True, holder="a_1")
    told_of_other = "led by b_2, see http://b:9191"
    for leader, told in ((other, told_of_other), (own, "")):
        with serving(views_of(metrics, record=record, leaders=(leader,))) as listener:
            for command in (("explain", "shop/web"), ("history",), ("history", "shop/web")):
                code, out, err = ran(*command, "--url", f"http://{HOST}:{listener.port}")
                assert (code, "stands by" in out) == (0, False)
                last = f"this daemon is a standby: {told}" if told else ""
                assert err.splitlines()[1:] == ([last] if last else [])
    several = (replace(own, cluster="eu"), replace(other, cluster="us"))
    with serving(views_of(metrics, record=record, leaders=several)) as listener:
        err = ran("history", "--url", f"http://{HOST}:{listener.port}")[2]
        assert err.splitlines()[1:] == [f"us: {told_of_other}"]


def test_what_is_explained_is_what_was_asked_for(kept: Path) -> None:
    """The last change of the count, by hand at 00:10; or each since a time, and what held then."""
    code, out, _ = of_file(kept, "explain shop/web --last-change")
    assert (code, "\x1b" in out) == (0, False)
    assert out.startswith(f"{WEB} at 01:10:00: ")
    code, out, _ = of_file(kept, "explain shop/web --since 01:01")
    first = [text.split(": ")[0] for text in out.split("\n\n")]
    times_of_day = ("01:00:00", "01:02:00", "01:02:15", "01:10:00")
    assert (code, first) == (0, [f"{WEB} at {item}" for item in times_of_day])
    # JSON is that of the API, as a list.
    code, out, err = of_file(kept, "explain shop/web --at 2026-01-01T00:03:00Z -o json")
    found = known(explanation_at(DirectoryRecord(kept), WEB, BASE + 180.999))
    assert (code, json.loads(out), err) == (0, [found.document()], "")


def test_a_decision_is_made_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said whether the result is the same; another one is a failure."""
    asked = "explain shop/web --recompute"
    code, out, _ = of_file(kept, asked)
    same = "  decided again from what was read then: the same result"
    assert (code, out.splitlines()[-1]) == (0, same)
    code, out, _ = of_file(kept, f"{asked} -o json")
    assert (code, json.loads(out)[0]["recomputed"]) == (0, True)

    def otherwise(entry: SyncResult) -> Decision:
        return replace(recompute(entry), desired=7)

    monkeypatch.setattr(recorded, "recompute", otherwise)
    code, out, _ = of_file(kept, asked)
    assert code == 1
    assert "another result, 7 replicas instead of 5; was it decided by another version?" in out
    with daemon_of(kept) as url:
        code, out, err = ran("explain", "shop/web", "--recompute", "--url", url)
    assert (code, out) == (2, "")
    assert err == "--recompute reads a state directory: give --state-directory or -c\n"


@pytest.mark.parametrize(
    ("asked", "code", "sentence"),
    [
        ("shop/wbe", 2, "no target is called shop/wbe; did you mean shop/web?"),
        ("shop/web --at 5/6", 2, "'5/6' is not a valid time; use a form such as "),
        ("shop/web --at tomorrow", 2, "which has not come yet"),
        ("shop/web --at 'yesterday 18:00'", 1, "nothing is recorded of shop/web at 2025-12-"),
    ],
)
def test_what_cannot_be_explained_is_said(kept: Path, asked: str, code: int, sentence: str) -> None:
    """On standard error, and nothing is printed to the other."""
    ended, out, err = of_file(kept, f"explain {asked}")
    assert (ended, out) == (code, "")
    assert sentence in err


def test_where_nothing_is_recorded_it_is_said(tmp_path: Path) -> None:
    """Of a directory, of a daemon that is away, and of one that keeps no record."""
    for command in (["explain", "shop/web"], ["history"], ["status"]):
        code, out, err = ran(*command, "--state-directory", str(tmp_path))
        assert (code, out) == (1, "")
        assert err == f"nothing is recorded in {tmp_path}: there is no record.db\n"
        code, out, err = ran(*command, "--url", "http://127.0.0.1:1")
        assert (code, out) == (1, "")
        assert err.startswith("no daemon listens at http://127.0.0.1:1; start it with ")
    with serving(views_of(metrics_of(result_of(target_of("web"))))) as listener:
        code, out, err = ran("explain", WEB, "--url", f"http://{HOST}:{listener.port}")
    assert (code, out) == (1, "")
    assert ": the record is off: `record` is null\n" in err


def test_a_damaged_record_is_an_error(kept: Path, tmp_path: Path) -> None:
    """Of one entry all that is left is shown; of a file that is no database a sentence."""
    with (
        closing(sqlite3.connect(kept / "record.db")) as source,
        closing(sqlite3.connect(tmp_path / "record.db")) as copy,
    ):
        source.backup(copy)
        copy.execute("UPDATE changes SET body = x'00'")
        copy.commit()
    code, out, _ = of_file(tmp_path, f"explain {WEB} --at 01:02")
    assert code == 0
    assert "scaled 3 -> 5" in out
    assert "cannot be read: " in out
    (tmp_path / "record.db").write_bytes(b"no database " * 1000)
    for companion in ("record.db-wal", "record.db-shm"):
        (tmp_path / companion).unlink(missing_ok=True)
    code, _, err = of_file(tmp_path, "history")
    assert (code, "record.db" in err) == (1, True)


def test_what_was_not_recorded_any_more_is_not_said_to_hold(kept: Path) -> None:
    """The last decision held when it was recorded; later nobody knows."""
    code, out, _ = ran("explain", WEB, "--state-directory", str(kept))
    assert code == 0
    assert "valid when last recorded, at 01:10:00\n" in out
    assert "nothing was recorded from 01:10:00" in out
    assert "still valid" not in out


# -- history and status --------------------------------------------------------------------------


HISTORY = r"""
01:00:00 | 3 | unchanged (3)
01:02:00 | 3 -> 5 | scaled 3 -> 5: queue above target (16.67/10 per replica)
01:02:15 | 5 | unchanged (5)
01:10:00 | 5 -> 4 by kubectl\x1b[31m, then 4 -> 5
    | scaled 4 -> 5: queue above target (12.5/10 per replica)
"""


def test_history_has_a_line_for_each_change(kept: Path) -> None:
    """The first one first, with tabs in a pipe; a daemon gives the same."""
    code, out, _ = of_file(kept, "history")
    assert (code, [line.split("\t") for line in out.splitlines()]) == (
        0,
        [[f"2026-01-01 {at}+01:00", WEB, count, "ok", why] for at, count, why in rows(HISTORY)],
    )
    with daemon_of(kept) as url:
        assert ran("history", "--url", url)[:2] == (0, out)
        last_two = ran("history", "shop/web", "--limit", "2", "--url", url)[1]
        assert last_two == "".join(out.splitlines(keepends=True)[2:])


def test_history_is_of_a_span_and_at_most_so_many(kept: Path) -> None:
    """Those that are left out are the first ones, which is said."""
    code, out, err = of_file(kept, "history --limit 1")
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("2026-01-01 01:10:00")
    assert err.endswith("there are more than the 1 of --limit; the last ones are shown\n")
    _, out, _ = of_file(kept, "history shop/web --since 01:01 --until 01:05")
    assert [line[11:19] for line in out.splitlines()] == ["01:02:00", "01:02:15"]
    code, out, err = of_file(kept, "history --since 10m")
    assert (code, out) == (0, "")
    assert err.endswith("no change is recorded since 2026-01-01 01:50:00+01:00\n")
    code, out, err = of_file(kept, "history --since now --until 1h")
    assert (code, out) == (2, "")
    assert "is after --until" in err
    _, out, _ = of_file(kept, "history -o json")
    record = DirectoryRecord(kept)
    found = record.changes(None, 0, NOW, limit=10)[::-1]
    assert json.loads(out) == [change_of(row, record).document() for row in found]


def test_status_of_a_directory_is_what_was_recorded_last(kept: Path, tmp_path: Path) -> None:
    """It says as of when, and that no daemon answers where one is asked first."""
    code, out, err = of_file(kept, "status")
    shown = out.splitlines()[1].split("\t")[:5]
    assert (code, shown) == (0, [WEB, "queue: 12.5/10", "1", "100", "4 -> 5"])
    assert err.startswith(f"from the record in {kept}, as it was at 2026-01-01 01:")
    file = tmp_path / "autoscaler.yaml"
    file.write_text(
        "prometheus: {url: http://127.0.0.1:9}\nlisten: 127.0.0.1:9\n"
        f"stateDirectory: {kept}\ntargets: []\n"
    )
    code, _, err = ran("status", "-c", str(file))
    assert code == 0
    assert "no daemon listens at http://127.0.0.1:9; the data shown were recorded until " in err
    assert ran("explain", WEB, "--last-change", "-c", str(file))[0] == 0


def test_a_time_that_the_history_prints_is_the_one_to_ask_for(tmp_path: Path) -> None:
    """Though decisions are taken within a second, and times are printed without its parts."""
    with running(tmp_path) as writer:
        record(writer, three(), {0.295: 15.0, 1.295: 60.0, 1.795: 60.0})
    for time_of_day, expected in (
        ("01:00:00", "stabilizing at 3"),
        ("01:00:01", "unchanged (6)"),
    ):
        code, out, _ = of_file(tmp_path, f"explain {WEB} --at '2026-01-01 {time_of_day}'")
        assert (code, f"{time_of_day}: {expected}" in out) == (0, True), out
    code, out, _ = of_file(tmp_path, "history --since 2026-01-01 --until '2026-01-01 01:00'")
    assert (code, out.count(WEB)) == (0, 1)
    _, out, _ = of_file(tmp_path, f"explain {WEB} --at '2026-01-01 01:00:01.295'")
    assert "scaled 3 -> 6" in out


def test_the_history_says_when_nothing_was_recorded(tmp_path: Path) -> None:
    """Between the changes of two runs of the daemon, from the directory and over the API."""
    time = Time()
    for begin in (0, 600):
        time.now = BASE + begin
        with running(tmp_path, time=time) as writer:
            record(writer, three(), {begin: 15.0})
    with daemon_of(tmp_path) as url:
        for place in (("--state-directory", str(tmp_path)), ("--url", url)):
            code, out, _ = ran("history", "--since", "2026-01-01", *place)
            lines = [line.split("\t") for line in out.splitlines()]
            assert code == 0
            assert [line[0][11:19] for line in lines] == ["01:00:00", "01:00:00", "01:10:00"]
            assert lines[1][4] == "nothing was recorded until 2026-01-01 01:10:00+01:00"


# -- a daemon ------------------------------------------------------------------------------------


def test_a_secret_stays_in_its_file_and_is_not_sent_in_clear(tmp_path: Path) -> None:
    """But to this machine, as through `kubectl port-forward`."""
    token = tmp_path / "token"
    token.write_text("hunter2\x07")
    asked = ("history", "--token-file", str(token), "--url")
    code, out, err = ran(*asked, "http://127.0.0.1:9")
    assert (code, str(token) in err, "hunter2" in out + err) == (1, True, False)
    token.write_text("hunter2")
    code, _, err = ran(*asked, "http://192.0.2.1:9191")
    assert (code, f"what is in {token} is sent over https only" in err) == (1, True)
    code, _, err = ran(*asked, "http://127.0.0.1:9")
    assert (code, "no daemon listens at http://127.0.0.1:9; " in err) == (1, True)


def test_a_daemon_is_asked_over_tls_by_who_signs_in(kept: Path, tmp_path: Path) -> None:
    """With a token or a password from a file; without, and with another CA, a sentence says why."""
    views = views_of(metrics_of(result_of(target_of("web"))), record=DirectoryRecord(kept))
    text = f"listen: 127.0.0.1:0\nweb: {{{TLS}, {AUTH}}}"
    (tmp_path / "password").write_text(NEW)
    (tmp_path / "wrong").write_text("wrong")
    with listening(tmp_path, text, api.routes(lambda: views)) as daemon:
        (url,) = daemon.urls()
        trusting = ("--url", url, "--ca-file", str(tmp_path / "server.crt"))
        token = ("--token-file", str(tmp_path / "token"))
        password = ("--user", "alice", "--password-file", str(tmp_path / "password"))
        for command in (("explain", WEB, "--last-change"), ("history",), ("status",)):
            for signing in (token, password):
                assert ran(*command, *trusting, *signing)[0] == 0
            code, _, err = ran(*command, *trusting)
            assert code == 1
            assert f"the daemon at {url} wants you to sign in: give --token-file" in err
            code, _, err = ran(*command, *trusting, "--token-file", str(tmp_path / "wrong"))
            assert (code, "refuses what you signed in with" in err) == (1, True)
            code, _, err = ran(*command, "--url", url, *token)
            assert (code, f"TLS with the daemon at {url} failed: " in err) == (1, True)
        file = tmp_path / "asked.yaml"
        file.write_text(
            f"prometheus: {{url: http://p}}\nlisten: {url.removeprefix('https://')}\n"
            f"stateDirectory: null\nweb: {{{TLS}}}\ntargets: []\n"
        )
        for command in (("history",), ("status",)):
            assert ran(*command, "-c", str(file), *trusting[2:], *token)[0] == 0


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
@pytest.mark.parametrize("asked", ["explain a", "explain shop/a", "history", "status"])
def test_texts_of_a_daemon_are_printable(
    asked: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever answers at the address of `--url`; the layout of an explanation stays."""
    monkeypatch.setattr(sources, "read_page", hostile_page)
    _, out, err = ran(*f"{asked}{form}".split(), "--url", "http://127.0.0.1:1")
    assert all(line.isprintable() or "\t" in line for line in (out + err).split("\n"))
    assert not set(HOSTILE) & set(out + err) & {"\x1b", "\x07", "\u202e", "\x9b"}
    if (asked, form) == ("explain shop/a", ""):
        assert f"  stage  {SHOWN}" in [line.rstrip() for line in out.splitlines()]
