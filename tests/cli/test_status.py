"""`autoscaler status`: what it prints of a daemon's page, and how it fails without one."""

import json
import re
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from autoscaler.web.api.endpoints import target_list
from autoscaler.web.site import Views
from tests.cli import test_commands
from tests.cli.refusals import assert_refused
from tests.core.builders import average, cpu, external, utilization, values
from tests.narrowing import assert_parts
from tests.telemetry.results import NOW, metrics_of, result_of, target_of
from tests.web.api.serving import serving, views_of
from tests.web.test_listener import HOST
from tests.worlds.daemon import write_config
from tests.worlds.prometheus.faults import ScriptedServer, Step, answer, hang, speak

REFUSED = Gap(GapKind.ERROR, "connection refused")
ORDERS = external(
    average("30"), "rabbitmq_queue_messages_ready", LabelSelector((("queue", "orders"),))
)
MIXED = (cpu(utilization(70)), ORDERS)


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


def healthy() -> Health:
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


def views_on(*results: SyncResult, health: Health | None = None, **more: Any) -> Views:
    """Return the views of a daemon with these targets, or with one that is ok."""
    metrics = metrics_of(*(results or [result_of(target_of())]))
    return views_of(metrics, health or healthy(), **more)


def in_clusters(leaders: Sequence[ClusterLeader]) -> Views:
    """Return the views of a daemon with a target in each cluster that has these leaders."""
    targets = [replace(target_of(), cluster=leader.cluster) for leader in leaders]
    return views_on(*map(result_of, targets), leaders=tuple(leaders))


def status_of(views: Views, *arguments: str) -> tuple[int, str, str]:
    """Run the command against a listener."""
    with serving(views) as listener:
        return ran("--url", f"http://{HOST}:{listener.port}", *arguments)


# -- in shadow -----------------------------------------------------------------------------------


def shadowed(*readings: Reading, wants: int | None = 3) -> SyncResult:
    """Return the result of a target in shadow at three replicas, and what its HPA wants."""
    statuses = () if wants is None else (HpaStatus(NOW - 5, 3, wants),)
    target = target_of("web", extensions=Extensions(mode=Mode.SHADOW))
    return result_of(target, *readings, hpa=Hpa("web", statuses=statuses))


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (shadowed(values(90)), []),
        (shadowed(values(90), wants=None), []),
        (shadowed(values(120)), ["3 -> 4"]),
        (shadowed(values(90), wants=5), ["(3)", "HPA wants 5"]),
        (shadowed(REFUSED), ["(3)", "refused"]),
    ],
)
def test_shadow_has_a_reason_where_counts_differ(result: SyncResult, parts: list[str]) -> None:
    _, _, *below = lines_for_terminal(report_of(metrics_of(result)), 200)
    assert bool(below) is bool(parts)
    assert_parts("\n".join(below), *parts)


@pytest.mark.parametrize("live", [0, 2])
def test_the_last_line_counts_all_moved_and_all_shadow_targets(live: int) -> None:
    metrics = metrics_of(shadowed(REFUSED), *(result_of(target_of(item)) for item in "ab"[:live]))
    new = target_of("new", extensions=Extensions(mode=Mode.SHADOW))
    metrics.states.set_targets([*(facts.target for facts in metrics.states.known()), new])
    views = views_of(metrics, healthy())
    for names in ((), ("shop/Deployment/web",)):
        last = status_of(views, *names)[1].splitlines()[-1]
        assert list(map(int, re.findall(r"\d+", last))) == [live, live + 2, 2]


# -- the table -----------------------------------------------------------------------------------


def test_a_terminal_of_80_columns_has_the_metrics_below_the_counts() -> None:
    lines = list(lines_for_terminal(report_of(fleet()), 80))
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


def test_a_wide_terminal_has_the_metrics_in_their_column_like_kubectl() -> None:
    heading, first, *_ = lines_for_terminal(one_report(REFUSED, values(90)), 160)
    assert heading.split()[:3] == ["REFERENCE", "TARGETS", "MINPODS"]
    column = heading.index("TARGETS")
    cells = 'cpu: <unknown>/70%, rabbitmq_queue_messages_ready{queue="orders"}: 30/30  1  '
    assert first[column:].startswith(cells)


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100, 120, 500])
def test_no_width_breaks_a_word(width: int) -> None:
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
    heading, first, second, *_ = lines_for_terminal(
        one_report(values(90), values(90), name="w" * 60), 80
    )
    assert first == f"shop/Deployment/{'w' * 60}"
    assert second.index("1 ") == heading.index("MINPODS")


def test_a_pipe_gets_one_line_a_target_with_tabs() -> None:
    rows = [line.split("\t") for line in lines_for_programs(report_of(fleet()))]
    assert {len(row) for row in rows} == {8}
    states = [row[6] for row in rows]
    assert states == ["STATE", "failing", "ok", "ok", "atMaximum", "failing", "unknown"]
    assert rows[3][4] == "3 -> 4"


def test_the_sum_counts_the_healthy_targets_first_then_the_worst_states() -> None:
    assert summary(report_of(fleet())) == "6 targets: 2 ok, 2 failing, 1 atMaximum, 1 unknown"
    assert summary(report_of(metrics_of(result_of(target_of())))) == "1 target: 1 ok"


AGES = """
-3=0s 0=0s 119=119s 120=2m 312=5m12s 600=10m 10799=179m 10800=3h 12000=3h20m 28800=8h 172799=47h
172800=2d 187200=2d4h 691200=8d 63071999=729d 63072000=2y 66000000=2y33d 300000000=9y
"""


@pytest.mark.parametrize(("seconds", "text"), [row.split("=") for row in AGES.split()])
def test_ages_are_as_kubectl_writes_them(seconds: str, text: str) -> None:
    assert age(float(seconds)) == text


# -- the command ---------------------------------------------------------------------------------


def test_named_targets_are_shown_in_the_order_of_the_configuration_with_their_sum() -> None:
    views = views_of(fleet(), healthy())
    code, out, err = status_of(views, "shop/web", "shop/Deployment/order-worker")
    names = [line.partition("\t")[0] for line in out.splitlines()]
    expected = ["REFERENCE", "shop/Deployment/order-worker", "shop/Deployment/web"]
    assert (code, names, err) == (0, [*expected, "2 targets: 1 ok, 1 failing"], "")
    code, out, _ = status_of(views, "-o", "json", "shop/order-worker")
    (item,) = json.loads(out)
    assert (code, item["metrics"][1]["value"]) == (0, 30)
    assert item["lastSync"] == "2027-01-15T08:00:00Z"


def test_the_daemon_is_asked_at_the_address_of_the_configuration(tmp_path: Path) -> None:
    document = {"prometheus": {"url": "http://127.0.0.1:1"}, "targets": []}
    with serving(views_of(metrics_of(), healthy())) as listener:
        file = write_config(tmp_path / "c.yaml", {**document, "listen": f":{listener.port}"})
        code, out, err = ran("-c", str(file))
        assert (code, out.count("\n"), err) == (0, 1, "")
        assert f"http://127.0.0.1:{listener.port}" in out
    missing = str(tmp_path / "none.yaml")
    assert_refused(ran("-c", missing), 2, missing)
    for listen, part in ((None, "`listen`"), ("127.0.0.1:0", "--url")):
        file = write_config(tmp_path / "c.yaml", {**document, "listen": listen})
        assert_refused(ran("-c", str(file)), 2, str(file), part)


MISTAKEN = [
    *('listen: ":PORT"\ntargets: [', '{listen: ":PORT", targets: 3}'),
    'include: [none/*.yaml]\nlisten: "127.0.0.1:PORT" # ours',
    # Without a valid address, which is not repeated, the default one is asked.
    *("targets: 3", "listen: hunter2", "listen: [\n", "- 1", "", "\0", "listen: {a: b}"),
]


@pytest.mark.parametrize("text", MISTAKEN)
def test_a_file_with_mistakes_still_has_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "c.yaml"
    with serving(views_of(fleet(), healthy())) as listener:
        if "PORT" not in text:
            monkeypatch.setattr(sources, "LISTEN", Address(HOST, listener.port))
        file.write_text(text.replace("PORT", str(listener.port)))
        code, out, err = ran("-c", str(file))
    assert (code, out.splitlines()[-1][:10], err.count("\n")) == (0, "6 targets:", 1)
    assert_parts(err, f"`autoscaler validate {file}`", f"http://{HOST}:{listener.port}")
    assert "hunter2" not in err


def test_components_that_are_not_ok_are_printed_last() -> None:
    health = healthy()
    health.report(Component.RELOAD, ok=False, message="a.yaml:3: targets")
    health.report(Component.PROMETHEUS, ok=False, message="HTTP 503 \x1b")
    views = views_on(health=health)
    code, out, err = status_of(views)
    _, _, total, prometheus, reload = out.splitlines()
    assert (code, err, total) == (0, "", "1 target: 1 ok")
    assert prometheus.startswith("prometheus ")
    assert prometheus.endswith(r": HTTP 503 \x1b")
    assert reload.endswith(" a.yaml:3: targets")
    code, out, err = status_of(views, "-o", "json")
    assert len(json.loads(out)) == 1
    assert err.splitlines()[1] == reload


LEADERS = (
    ClusterLeader("eu", leading=True, holder="a_1"),
    ClusterLeader("us", leading=False, holder="b\x1b_2", url="http://b:9191"),
    ClusterLeader("ap", leading=False, holder="c_3", url="javascript:x"),
    ClusterLeader("za", leading=False),
    ClusterLeader("in", leading=True, holder="a_1"),
)


def test_each_leader_of_the_shown_clusters_has_a_line_with_its_address() -> None:
    views = in_clusters(LEADERS)
    code, out, err = status_of(views)
    ours, named, unsafe, unknown = lines = out.splitlines()[-4:]
    assert (code, err) == (0, "")
    assert [line.partition(": ")[0] for line in lines] == ["eu, in", "us", "ap", "za"]
    assert ours.endswith("this daemon")
    assert_parts(named, r"b\x1b_2", "http://b:9191")
    assert unsafe.endswith(" c_3")
    assert "nobody" in unknown
    item = status_of(views, "us/shop/web")[1].splitlines()
    assert item[item.index("1 target: 1 ok") + 1 :] == [named]
    assert status_of(views, "-o", "json")[2].splitlines() == lines


@pytest.mark.parametrize("leading", [True, False])
def test_the_leader_of_the_only_cluster_is_named_if_it_is_another(*, leading: bool) -> None:
    leader = ClusterLeader("", leading=leading, holder="b_2")
    lines = status_of(in_clusters([leader]))[1].partition("1 target: 1 ok\n")[2].splitlines()
    assert ["standby" in line and line.endswith(" b_2") for line in lines] == [True][leading:]


def test_the_shard_that_has_an_unknown_target_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    election = LeaderElection.model_validate({"externalUrl": "http://{hostname}:9191"})
    number = owner("bank", 2)
    sharded = {"targets": (), "shards": 2, "leader_election": election}
    config = Config.model_construct(**sharded)  # type: ignore[arg-type]
    refused = status_of(views_on(config=config.of_shard(1 - number)), "bank/web")
    assert_refused(refused, 2, "bank/web: ", f"shard {number} ", f"http://pod-{number}:9191")


def test_only_the_first_of_very_many_clusters_are_named() -> None:
    leaders = [ClusterLeader(f"edge-{n}", leading=True, holder="a") for n in range(300)]
    out = status_of(in_clusters(leaders))[1]
    assert ", edge-8, edge-9 and 290 more: " in out.splitlines()[-1]


NO_AUTOSCALER = [
    (answer("", "404 Not Found"), "web.listen"),
    (answer("\x1b", "503 Busy", {"Content-Type": "text/plain"}), r"HTTP 503: \x1b"),
    (answer("<!doctype html>"), "JSON"),
    (answer("[" * 100_000), "JSON"),
    (answer('{"time": "2027-01-15T08:00:00Z", "targets": ['), "JSON"),
    (answer({"status": "success"}), "version"),
    (answer({"targets": [{"target": 1}]}), "version"),
    (speak(b"SSH-2.0-OpenSSH_9.6\r\n"), "not HTTP"),
]


@pytest.mark.parametrize(("step", "part"), NO_AUTOSCALER)
def test_an_answer_of_another_program_fails_with_one_printable_line(step: Step, part: str) -> None:
    with ScriptedServer(step) as server:
        result = ran("--url", server.url)
    assert_refused(result, 1, server.url, part)
    assert result[2][:-1].isprintable()


def test_without_a_daemon_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setattr(sources, "LISTEN", Address(HOST, port))
    url = f"http://{HOST}:{port}"
    for arguments in (("--url", f"{url}/"), ()):
        assert_refused(ran(*arguments), 1, f"{url}{NotRunningError.advice}\n")


@pytest.mark.parametrize(
    ("name", "limit", "step", "part"),
    [
        ("_LIMITS", PageLimits(seconds=0.3), hang, "in time"),
        ("_LIMITS", PageLimits(most_bytes=1 << 20), answer(" " * (1 << 21)), "more than"),
        ("_MOST_MEMORY", 1 << 20, answer("[[],[]," * (1 << 15)), "1 MiB"),
    ],
    ids=["time", "size", "memory"],
)
def test_an_answer_has_bounds_in_time_and_size(
    monkeypatch: pytest.MonkeyPatch, name: str, limit: object, step: Step, part: str
) -> None:
    """A server that sends nothing is left, and too large an answer is not received or parsed."""
    monkeypatch.setattr(sources, name, limit)
    with ScriptedServer(step) as server:
        assert_refused(ran("--url", server.url), 1, server.url, part)
