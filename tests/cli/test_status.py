"""`autoscaler status`: what it prints of a daemon's page, and what it says where there is none."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.cli import sources
from autoscaler.cli.showing_status import age, lines_for_programs, lines_for_terminal, summary
from autoscaler.cli.sources import NotRunningError
from autoscaler.config import Address, Config, LeaderElection
from autoscaler.config.shards import owner
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.observation import Gap, GapKind, Hpa, HpaStatus, ReadFailure, Reading, Scale
from autoscaler.core.spec import LabelSelector
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.client import PageLimits
from autoscaler.kubernetes.election import ClusterLeader
from autoscaler.rendering.answers import TargetList
from autoscaler.telemetry.health import REQUIRED, Component, Health
from autoscaler.telemetry.metrics import Metrics
from autoscaler.web.answering import Page
from autoscaler.web.api.endpoints import target_list
from autoscaler.web.site import Views
from tests.cli import test_commands
from tests.core.builders import average, cpu, external, utilization, values
from tests.telemetry.results import NOW, metrics_of, result_of, target_of
from tests.web.api.serving import serving, views_of
from tests.web.test_listener import HOST, listening
from tests.worlds.daemon import write_config

REFUSED = Gap(GapKind.ERROR, "Prometheus http://prometheus:9090 refused the connection")
ORDERS = external(
    average("30"), "rabbitmq_queue_messages_ready", LabelSelector((("queue", "orders"),))
)
MIXED = (cpu(utilization(70)), ORDERS)

Answer = Callable[[str, str], Page]


def fleet() -> Metrics:
    """Return the metrics of a daemon with a target in each of several states."""
    metrics = metrics_of(
        result_of(target_of("order-worker", *MIXED), REFUSED, values(90), scale=Scale(3, 3, "x")),
        result_of(target_of("web"), values(90)),
        result_of(target_of("grows"), values(120)),
        result_of(target_of("full", maximum=4), values(600)),
        result_of(target_of("gone"), scale=ReadFailure('deployments.apps "gone" not found')),
    )
    known = [facts.target for facts in metrics.states.known()]
    metrics.states.set_targets([*known, target_of("new")])
    return metrics


def well() -> Health:
    """Return the health of a daemon that has all it needs."""
    health = Health(wall=lambda: NOW)
    for component in REQUIRED:
        health.report(component, ok=True, message="answers")
    return health


def report_of(metrics: Metrics, seconds: float = 312.0) -> TargetList:
    """Return the report of a page that is made so long after the syncs."""
    page = b"".join(target_list(metrics.states.known(), NOW + seconds))
    return TargetList.model_validate_json(page)


def one_report(*readings: Reading, name: str = "web") -> TargetList:
    """Return the report of one target of a utilization and a queue."""
    return report_of(metrics_of(result_of(target_of(name, *MIXED), *readings)))


def ran(*arguments: str) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it printed to either stream."""
    return test_commands.ran("status", *arguments)


def asked(answer: Answer | Views, *arguments: str) -> tuple[int, str, str]:
    """Run the command against a listener."""
    with serving(answer) if isinstance(answer, Views) else listening(answer) as listener:
        return ran("--url", f"http://{HOST}:{listener.port}", *arguments)


# -- in shadow -----------------------------------------------------------------------------------


def shadowed(*readings: Reading, wants: int | None = 3) -> SyncResult:
    """Return the result of a target in shadow at three replicas, and what its HPA wants."""
    statuses = () if wants is None else (HpaStatus(NOW - 5, 3, wants),)
    target = target_of("web", extensions=Extensions(mode=Mode.SHADOW))
    return result_of(target, *readings, hpa=Hpa("web", statuses=statuses))


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (shadowed(values(90)), ""),
        (shadowed(values(90), wants=None), ""),
        (shadowed(values(120)), "shadow: would scale 3 -> 4: "),
        (shadowed(values(90), wants=5), "shadow: unchanged (3); the HPA wants 5"),
        (shadowed(REFUSED), "shadow: unchanged (3): "),
    ],
)
def test_a_target_in_shadow_is_no_problem(result: SyncResult, reason: str) -> None:
    """Only where counts differ, the HPA's or the object's, or it fails, it is said why."""
    below = list(lines_for_terminal(report_of(metrics_of(result)), 200))[2:]
    assert bool(below) is bool(reason)
    assert "\n".join(below).strip().startswith(reason)


@pytest.mark.parametrize("live", [0, 2])
def test_the_last_line_says_how_far_a_move_has_come(live: int) -> None:
    """Of all targets, failing ones and ones that were not synced yet too, whichever are shown."""
    last = f"{live} of {live + 2} targets moved, 2 in shadow"
    metrics = metrics_of(shadowed(REFUSED), *(result_of(target_of(item)) for item in "ab"[:live]))
    new = target_of("new", extensions=Extensions(mode=Mode.SHADOW))
    metrics.states.set_targets([*(facts.target for facts in metrics.states.known()), new])
    views = views_of(metrics, well())
    assert asked(views)[1].splitlines()[-1] == last
    assert asked(views, "shop/Deployment/web")[1].splitlines()[-1] == last


# -- the table -----------------------------------------------------------------------------------


def test_a_terminal_of_80_columns_shows_it_whole() -> None:
    """Counts beside the name, what does not fit below it, and no word is broken."""
    lines = list(lines_for_terminal(report_of(fleet()), 80))
    assert all(len(line) <= 80 for line in lines)
    rows = [line for line in lines if not line.startswith(" ")]
    assert rows == [
        "REFERENCE                     MINPODS  MAXPODS  REPLICAS   SINCE      STATE",
        "shop/Deployment/order-worker  1        20       3          5m12s      failing",
        "shop/Deployment/web           1        20       3          5m12s      ok",
        "shop/Deployment/grows         1        20       3 -> 4     5m12s      ok",
        "shop/Deployment/full          1        4        3 -> 4     5m12s      atMaximum",
        "shop/Deployment/gone          1        20       <unknown>  5m12s      failing",
        "shop/Deployment/new           1        20       <unknown>  <unknown>  unknown",
    ]
    assert '  cpu: <unknown>/70%, rabbitmq_queue_messages_ready{queue="orders"}: 30/30' in lines


def test_a_wide_terminal_has_the_metrics_in_their_column() -> None:
    """As `kubectl get hpa` does."""
    heading, first, *_ = lines_for_terminal(one_report(REFUSED, values(90)), 160)
    assert heading.split()[:3] == ["REFERENCE", "TARGETS", "MINPODS"]
    column = heading.index("TARGETS")
    shown = 'cpu: <unknown>/70%, rabbitmq_queue_messages_ready{queue="orders"}: 30/30  1  '
    assert first[column:].startswith(shown)


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100, 120, 500])
def test_no_width_breaks_a_word(width: int) -> None:
    """Every word of the widest table is a word of each other one."""
    report = report_of(fleet())
    whole, lines = (list(lines_for_terminal(report, item)) for item in (1000, width))
    words, expected = (
        {word.rstrip(",") for line in some for word in line.split()} - {"TARGETS"}
        for some in (lines, whole)
    )
    assert words == expected
    if width >= 80:
        assert max(map(len, lines)) <= width


def test_a_name_that_is_too_long_has_a_line_of_its_own() -> None:
    """The counts stand below it in their columns."""
    lines = list(lines_for_terminal(one_report(values(90), values(90), name="w" * 60), 80))
    heading, first, second, *_ = lines
    assert first == f"shop/Deployment/{'w' * 60}"
    assert second.index("1 ") == heading.index("MINPODS")


def test_a_pipe_gets_one_line_a_target_with_tabs() -> None:
    """So that grep finds a whole target, and awk and cut its columns."""
    lines = list(lines_for_programs(report_of(fleet())))
    assert len(lines) == 7
    rows = [line.split("\t") for line in lines]
    assert {len(row) for row in rows} == {8}
    states = [row[6] for row in rows]
    assert states == ["STATE", "failing", "ok", "ok", "atMaximum", "failing", "unknown"]
    assert rows[3][4] == "3 -> 4"


def test_the_last_line_sums_up() -> None:
    """Those that are well first, then the worst."""
    assert summary(report_of(fleet())) == "6 targets: 2 ok, 2 failing, 1 atMaximum, 1 unknown"
    assert summary(report_of(metrics_of(result_of(target_of())))) == "1 target: 1 ok"


AGES = """
-3=0s 0=0s 119=119s 120=2m 312=5m12s 600=10m 10799=179m 10800=3h 12000=3h20m 28800=8h 172799=47h
172800=2d 187200=2d4h 691200=8d 63071999=729d 63072000=2y 66000000=2y33d 300000000=9y
"""


@pytest.mark.parametrize(("seconds", "text"), [row.split("=") for row in AGES.split()])
def test_ages_are_as_kubectl_writes_them(seconds: str, text: str) -> None:
    """The table of apimachinery's duration.HumanDuration."""
    assert age(float(seconds)) == text


# -- the command ---------------------------------------------------------------------------------


def test_it_asks_the_daemon_and_shows_what_was_asked_for() -> None:
    """By NAMESPACE/NAME or with the kind, in the configuration's order; and the sum of these."""
    views = views_of(fleet(), well())
    code, out, err = asked(views, "shop/web", "shop/Deployment/order-worker")
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 4)
    assert [line.partition("\t")[0] for line in lines] == [
        "REFERENCE",
        "shop/Deployment/order-worker",
        "shop/Deployment/web",
        "2 targets: 1 ok, 1 failing",
    ]


def test_json_is_what_the_daemon_sent() -> None:
    """Also fields that the table does not show."""
    views = views_of(fleet(), well())
    code, out, _ = asked(views, "-o", "json", "shop/order-worker")
    (item,) = json.loads(out)
    assert code == 0
    assert item["metrics"][1]["value"] == 30
    assert item["lastSync"] == "2027-01-15T08:00:00Z"


def test_the_address_is_that_of_the_configuration(tmp_path: Path) -> None:
    """`listen` on all addresses is asked on this machine."""
    config = {"prometheus": {"url": "http://127.0.0.1:1"}, "targets": []}
    with serving(views_of(metrics_of(), well())) as listener:
        file = write_config(tmp_path / "c.yaml", {**config, "listen": f":{listener.port}"})
        code, out, err = ran("-c", str(file))
        none = f"the daemon at http://127.0.0.1:{listener.port} has no targets\n"
        assert (code, out, err) == (0, none, "")
    for listen, words in ((None, "serves no pages"), ("127.0.0.1:0", "any free port")):
        file = write_config(tmp_path / "c.yaml", {**config, "listen": listen})
        code, out, err = ran("-c", str(file))
        assert (code, out) == (2, "")
        assert words in err


MISTAKEN = [
    pytest.param('listen: ":{port}"\ntargets: [', id="no YAML"),
    pytest.param('{{listen: ":{port}", targets: 3}}', id="a wrong type"),
    pytest.param('include: [none/*.yaml]\nlisten: "127.0.0.1:{port}" # ours', id="an include"),
]


@pytest.mark.parametrize("text", MISTAKEN)
def test_a_file_with_mistakes_still_tells_the_address(tmp_path: Path, text: str) -> None:
    """One wants to see what runs then; one line says that the file is not what runs."""
    file = tmp_path / "c.yaml"
    with serving(views_of(fleet(), well())) as listener:
        file.write_text(text.format(port=listener.port))
        code, out, err = ran("-c", str(file))
        assert (code, out.splitlines()[-1][:10]) == (0, "6 targets:")
        assert err == (
            f"{file} has mistakes (`autoscaler validate {file}` tells them); "
            f"the daemon at http://127.0.0.1:{listener.port} is asked\n"
        )


@pytest.mark.parametrize(
    "text", ["targets: 3", "listen: hunter2", "listen: [\n", "- 1", "", "\0", "listen: {a: b}"]
)
def test_the_default_address_is_asked_where_a_file_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Or one that is none, which is not repeated; what is no file is told instead."""
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with serving(views_of(fleet(), well())) as listener:
        monkeypatch.setattr(sources, "LISTEN", Address(HOST, listener.port))
        code, _, err = ran("-c", str(file))
        assert (code, err.count("\n")) == (0, 1)
        assert f"the daemon at http://{HOST}:{listener.port} is asked" in err
        assert "hunter2" not in err
        code, out, err = ran("-c", str(tmp_path / "none.yaml"))
        assert (code, out) == (2, "")
        assert "there is no such file" in err


def test_what_is_not_ok_is_told_last() -> None:
    """A configuration that is refused, and what does not answer; on standard error beside JSON."""
    health = well()
    refused = "refused: a.yaml:3: targets: must be a list; the last good one is in force"
    health.report(Component.RELOAD, ok=False, message=refused)
    health.report(Component.PROMETHEUS, ok=False, message="answers only HTTP 503 \x1b")
    views = views_of(metrics_of(result_of(target_of())), health)
    code, out, err = asked(views)
    _, _, total, prometheus, reload = out.splitlines()
    assert (code, err, total) == (0, "", "1 target: 1 ok")
    assert prometheus.startswith("prometheus has not been ok for ")
    assert prometheus.endswith(r": answers only HTTP 503 \x1b")
    assert reload == f"the configuration on the disk is {refused}"
    code, out, err = asked(views, "-o", "json")
    assert len(json.loads(out)) == 1
    assert err.splitlines()[1] == reload


LEADERS = (
    ClusterLeader("eu", leading=True, holder="a_1"),
    ClusterLeader("us", leading=False, holder="b\x1b_2", url="http://b:9191"),
    ClusterLeader("ap", leading=False, holder="c_3", url="javascript:x"),
    ClusterLeader("za", leading=False),
    ClusterLeader("in", leading=True, holder="a_1"),
)


def test_it_tells_who_leads_the_clusters_of_the_targets() -> None:
    """One line for each leader, with the address of its pages; on standard error beside JSON."""
    clusters = [leader.cluster for leader in LEADERS]
    known = [result_of(replace(target_of(), cluster=name)) for name in clusters]
    views = views_of(metrics_of(*known), well(), leaders=LEADERS)
    code, out, err = asked(views)
    lines = [
        "eu, in: led by this daemon",
        r"us: led by b\x1b_2, see http://b:9191",
        "ap: led by c_3",
        "za: nobody is known to lead",
    ]
    assert (code, err, out.splitlines()[-4:]) == (0, "", lines)
    item = asked(views, "us/shop/web")[1].splitlines()
    assert item[item.index("1 target: 1 ok") + 1 :] == [lines[1]]
    assert asked(views, "-o", "json")[2].splitlines() == lines


@pytest.mark.parametrize(
    ("leader", "last"),
    [
        (ClusterLeader("", leading=True, holder="a_1"), "1 target: 1 ok"),
        (ClusterLeader("", leading=False, holder="b_2"), "this daemon is a standby: led by b_2"),
    ],
)
def test_of_the_only_cluster_it_tells_when_another_leads(leader: ClusterLeader, last: str) -> None:
    """And nothing while the daemon itself does."""
    views = views_of(metrics_of(result_of(target_of())), well(), leaders=(leader,))
    assert asked(views)[1].splitlines()[-1] == last


def test_it_tells_which_shard_has_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a name that this daemon does not have."""
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    election = LeaderElection.model_validate({"externalUrl": "http://{hostname}:9191"})
    number, of = owner("bank", 2), {"targets": (), "shards": 2, "leader_election": election}
    config = Config.model_construct(**of)  # type: ignore[arg-type]
    views = views_of(metrics_of(result_of(target_of())), well(), config=config.of_shard(1 - number))
    code, _, err = asked(views, "bank/web")
    told = f"bank/web: shard {number} has the targets there, see http://pod-{number}:9191\n"
    assert (code, err) == (2, told)


def test_of_many_clusters_some_are_named() -> None:
    """A daemon may lead hundreds."""
    names = [f"edge-{number}" for number in range(300)]
    known = [result_of(replace(target_of(), cluster=name)) for name in names]
    leaders = tuple(ClusterLeader(name, leading=True, holder="a") for name in names)
    out = asked(views_of(metrics_of(*known), well(), leaders=leaders))[1]
    assert out.splitlines()[-1].endswith(", edge-8, edge-9 and 290 more: led by this daemon")


def test_a_name_that_no_target_has_is_said_with_the_one_that_was_meant() -> None:
    """As `plan` says it; nothing is shown of the others."""
    code, out, err = asked(views_of(fleet(), well()), "order-worker", "shop/web")
    assert (code, out) == (2, "")
    assert err == "no target is called order-worker; did you mean shop/order-worker?\n"


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """Give the address of a server that sends the same to each; None sends nothing."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            # Whoever leaves early, or data that nobody has read, would reset the connection.
            with client, suppress(OSError):
                request = b""
                while b"\r\n\r\n" not in request:
                    request += client.recv(65536)
                if answer is not None:
                    client.sendall(answer)
                    client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://{HOST}:{server.getsockname()[1]}"
        thread.join(20)


def http(status: str, body: bytes = b"", *headers: str) -> bytes:
    """Return an answer as it is sent."""
    head = "\r\n".join((f"HTTP/1.0 {status}", *headers, "", ""))
    return head.encode() + body


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (http("404 Not Found"), "it is of an older version, another program"),
        (http("302 Found", b"", "Location: http://127.0.0.1:1/"), "answered HTTP 302"),
        (http("503 Busy", b"\x1b", "Content-Type: text/plain"), r"answered HTTP 503: \x1b"),
        (http("200 OK", b"<!doctype html>"), "is not an autoscaler: it sent no JSON"),
        (http("200 OK", b"[" * 100_000), "is not an autoscaler: it sent no JSON"),
        (http("200 OK", b'{"time": "2027-01-15T08:00:00Z", "targets": ['), "it sent no JSON"),
        (http("200 OK", b'{"status":"success"}'), "is not an autoscaler, or one of a version"),
        (
            http("200 OK", b'{"targets":[{"target":1}]}'),
            "is not an autoscaler, or one of a version",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "sent what is not HTTP, or broke off"),
    ],
)
def test_what_is_no_autoscaler_of_today_is_told_in_a_sentence(answer: bytes, sentence: str) -> None:
    """One line, exit code 1, whatever answers; half a page is none."""
    with answering(answer) as url:
        code, out, err = ran("--url", url)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert sentence in err
    assert url in err
    assert err[:-1].isprintable()


def test_an_address_at_which_nobody_listens_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is the first thing to say, and then what to do."""
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    advice = NotRunningError.advice
    told = f"no daemon listens at http://{HOST}:{port}{advice}\n"
    assert ran("--url", f"http://{HOST}:{port}/") == (1, "", told)
    monkeypatch.setattr(sources, "LISTEN", Address(HOST, port))
    assert ran()[2].endswith(f"{advice}\n")


def test_an_answer_has_bounds_in_time_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing is left, and what is too much is not received or not parsed."""
    monkeypatch.setattr(sources, "_LIMITS", PageLimits(seconds=0.3))
    with answering(None) as url:
        assert ran("--url", url) == (1, "", f"the daemon at {url} did not answer in time\n")
    monkeypatch.setattr(sources, "_LIMITS", PageLimits(most_bytes=1 << 20))
    with answering(http("200 OK", b" " * (1 << 21))) as url:
        assert ran("--url", url)[2] == f"the daemon at {url} sent more than any daemon does\n"
    monkeypatch.setattr(sources, "_MOST_MEMORY", 1 << 20)
    with answering(http("200 OK", b"[[],[]," * (1 << 15))) as url:
        assert "JSON that takes more than 1 MiB" in ran("--url", url)[2]
