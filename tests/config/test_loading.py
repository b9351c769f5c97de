"""A configuration becomes seconds, paths and types of the core."""

import os
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoscaler.config import Address, ConfigError, KubernetesSettings, LeaderElection, load
from autoscaler.config.conversion import DEFAULTS
from autoscaler.config.prometheus_connection import Tls
from autoscaler.config.settings import PrometheusServers, Record
from autoscaler.core.breaker import Breaker
from autoscaler.core.spec import Flags
from autoscaler.core.target import Query, SeriesLabels
from autoscaler.transport.credentials import SecretError, SecretFile
from tests.config.conftest import as_nobody
from tests.config.documents import (
    EXTERNAL,
    PROMETHEUS,
    loaded,
    metric,
    prometheus,
    refused,
    target,
    top,
    with_servers,
)
from tests.narrowing import known


def test_an_address_alone_has_the_defaults(tmp_path: Path) -> None:
    config = loaded(tmp_path, top(""))
    assert config.sync_period == 15.0
    assert config.flags == Flags(0.1, 300.0, 300.0, 30.0)
    assert config.kubernetes == KubernetesSettings(maxWritesPerSecond=100)
    assert config.prometheus == PrometheusServers(url="http://prometheus:9090")
    assert config.prometheus.timeout == 10.0
    assert (config.targets, config.breaker) == ((), None)
    assert config.path == tmp_path / "autoscaler.yaml"
    assert config.state_directory == Path("/var/lib/autoscaler")
    assert config.record == Record(maxSize="1Gi", maxAge="14d")
    assert config.listen == Address("127.0.0.1", 9191)
    assert (config.events, config.per_target_metrics) == (True, True)
    assert config.leader_election == LeaderElection(
        enabled=False,
        name="autoscaler",
        identity=None,
        leaseDuration="15s",
        renewDeadline="10s",
        retryPeriod="2s",
    )


def test_durations_sizes_and_files_of_settings_are_read(tmp_path: Path) -> None:
    """The plain ones are compared in test_comparison.py."""
    for name in ("ca.pem", "pair.pem", "password", "kubeconfig"):
        (tmp_path / name).write_text("x")
    config = loaded(
        tmp_path,
        textwrap.dedent("""\
            prometheus:
              url: https://prometheus.example/path/
              timeout: 1500ms
              basicAuth: {username: me, passwordFile: password}
              tls:
                caFile: ca.pem
                certFile: ./pair.pem
                keyFile: pair.pem
                serverName: other
                insecureSkipVerify: true
              queryParameters: {dedup: "true", match: [a, b]}
            kubernetes: {kubeconfig: kubeconfig}
            tolerance: 0.05
            downscaleStabilization: 1h
            cpuInitializationPeriod: 2m
            initialReadinessDelay: 10s
            scaleDownBreaker: {share: 5%, minTargets: 3, hold: 1h}
            stateDirectory: state
            record: {maxSize: 0.5Gi, maxAge: 3d}
            leaderElection:
              {enabled: true, namespace: ops, name: one, identity: me,
               leaseDuration: 1500ms, renewDeadline: 1s, retryPeriod: 200ms}
            targets: []
            """),
    )
    settings = config.prometheus
    assert settings.url == "https://prometheus.example/path"
    assert settings.timeout == 1.5
    assert known(settings.basic_auth).password_file == tmp_path / "password"
    pair = tmp_path / "pair.pem"
    assert settings.tls == Tls(
        caFile=str(tmp_path / "ca.pem"),
        certFile=str(pair),
        keyFile=str(pair),
        serverName="other",
        insecureSkipVerify=True,
    )
    assert settings.query_parameters == {"dedup": ("true",), "match": ("a", "b")}
    assert config.kubernetes.kubeconfig == tmp_path / "kubeconfig"
    assert config.flags == Flags(0.05, 3600.0, 120.0, 10.0)
    assert config.breaker == Breaker(5, 3, 3600.0)
    assert config.state_directory == tmp_path / "state"
    assert config.record is not None
    assert (config.record.max_size, config.record.max_age) == (2**29, 3 * 86400)
    election = config.leader_election
    assert (election.enabled, election.namespace, election.name) == (True, "ops", "one")
    periods = (election.lease_duration, election.renew_deadline, election.retry_period)
    assert (election.identity, *periods) == ("me", 1.5, 1.0, 0.2)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1]:9090",
        "https://[2001:db8::ffff:1.2.3.4]/p%20q/",
        "http://prometheus-operated.monitoring_x.svc.:9090",
        "http://10.0.0.1",
    ],
)
def test_names_ipv4_and_ipv6_are_addresses_of_prometheus(tmp_path: Path, url: str) -> None:
    text = f"prometheus: {{url: '{url}'}}\ntargets: []\n"
    assert loaded(tmp_path, text).prometheus.url == url.rstrip("/")


def test_the_sync_period_of_a_target_wins(tmp_path: Path) -> None:
    text = target("syncPeriod: 1m\n") + (
        "- namespace: shop\n"
        "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: other}\n"
        "  maxReplicas: 5\n"
        "syncPeriod: 20s\n"
    )
    assert [model.sync_period for model in loaded(tmp_path, text).targets] == [60.0, 20.0]


def test_zero_null_and_numbers_of_either_kind_count_as_what_they_are(tmp_path: Path) -> None:
    flags = ["downscaleStabilization", "cpuInitializationPeriod", "initialReadinessDelay"]
    text = "tolerance: 0\n" + "".join(f"{flag}: 0\n" for flag in flags)
    assert loaded(tmp_path, top(text)).flags == Flags(0.0, 0.0, 0.0, 0.0)
    assert loaded(tmp_path, top("kubernetes:\nqueries:\nsyncPeriod:\n")).sync_period == 15.0
    for written, tolerance in (("0.013", 0.013), ("13m", 0.013000000000000001), ("1e-1", 0.1)):
        assert loaded(tmp_path, top(f"tolerance: {written}\n")).flags.tolerance == tolerance


def test_file_names_begin_at_the_folder_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "token").write_text("x")
    (tmp_path / "sub" / "a.yaml").write_text(prometheus("bearerTokenFile: token\n"))
    monkeypatch.chdir(tmp_path)
    token = load(Path("sub/a.yaml")).prometheus.bearer_token_file
    assert token == tmp_path / "sub" / "token"


def test_a_leading_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "kubeconfig").write_text("x")
    config = loaded(tmp_path, top("kubernetes: {kubeconfig: ~/kubeconfig}\n"))
    assert config.kubernetes.kubeconfig == tmp_path / "kubeconfig"


def test_a_secret_that_cannot_be_read_is_refused_at_load(open_folder: Path) -> None:
    (open_folder / "token").write_text("x")
    text = prometheus("bearerTokenFile: token\n")
    assert loaded(open_folder, text).targets == ()
    (open_folder / "token").chmod(0)
    with as_nobody(), pytest.raises(ConfigError) as caught:
        load(open_folder / "autoscaler.yaml")
    (problem,) = caught.value.problems
    assert problem.message == (
        f"must name a file that this user may read: permission denied for {open_folder / 'token'}"
    )


WITH_WORDS = Query(
    "up",
    window=120.0,
    max_age=60.0,
    labels=SeriesLabels(pod="pod_name"),
    range_seconds=120.0,
    server="mimir",
    empty_is_zero=True,
    nan_is_zero=True,
    use_partial=True,
)


def test_a_query_by_name_or_inline_has_its_words(tmp_path: Path) -> None:
    words = "window: 2m, maxAge: 1m, labels: {pod: pod_name}, server: mimir"
    words = f"{{query: up, {words}, empty: zero, nan: zero, partial: use}}"
    for inline, named, query in (
        ("up", "down", Query("up", 60.0, 300.0, SeriesLabels())),
        (words, "down", WITH_WORDS),
        ("", words, WITH_WORDS),
    ):
        own = f", query: {inline}" if inline else ""
        source = f"{{metric: {{name: rps{own}}}, target: {{type: Value, value: 1}}}}"
        text = metric(f"type: External\nexternal: {source}\n")
        text = text.replace("rps: sum by (pod) (rps)", f"rps: {named}")
        (found,) = loaded(tmp_path, with_servers(text)).targets
        assert found.queries == (query,)


CPU = "type: Resource\nresource: {name: %s, target: {type: AverageValue, averageValue: 1}}\n"


def test_resource_queries_override_and_add(tmp_path: Path) -> None:
    (builtin,) = loaded(tmp_path, metric(CPU % "memory")).targets
    assert builtin.queries == (DEFAULTS["memory"],)
    (unsaid,) = loaded(tmp_path, target("")).targets
    assert unsaid.queries == (DEFAULTS["cpu"],)
    override = "resourceQueries: {cpu: my_cpu, gpu: {query: my_gpu, window: 30s}}\n"
    (cpu,) = loaded(tmp_path, override + metric(CPU % "cpu")).targets
    assert cpu.queries == (Query("my_cpu", window=120.0, range_seconds=120.0),)
    (gpu,) = loaded(tmp_path, override + metric(CPU % "gpu")).targets
    assert gpu.queries == (Query("my_gpu", window=30.0, range_seconds=30.0),)


def test_anchors_merges_and_block_texts_are_understood(tmp_path: Path) -> None:
    text = "\ufeff" + textwrap.dedent("""\
        prometheus: {url: http://prometheus:9090}
        queries:
          q: |
            sum by (queue) (
              queue_length
            )
        targets:
        - &first
          namespace: shop
          scaleTargetRef: &ref {apiVersion: apps/v1, kind: Deployment, name: a}
          maxReplicas: 3
          metrics: &metrics
          - {type: External, external: {metric: {name: q}, target: {type: Value, value: 1e3}}}
        - <<: *first
          scaleTargetRef: {<<: *ref, name: b}
        """).replace("\n", "\r\n")
    first, second = loaded(tmp_path, text).targets
    assert second.key == "shop/Deployment/b"
    assert second.spec.metrics == first.spec.metrics
    assert second.spec.metrics[0].target.value == 1_000_000
    assert first.queries[0].promql == "sum by (queue) (\n  queue_length\n)\n"


def test_targets_differ_by_group_kind_and_namespace(tmp_path: Path) -> None:
    row = "- {namespace: %s, maxReplicas: 2, scaleTargetRef: {apiVersion: %s, kind: %s, name: a}}\n"
    rows = [
        row % ("a", "apps/v1", "Deployment"),
        row % ("b", "apps/v1", "Deployment"),
        row % ("a", "example.com/v1", "Deployment"),
        row % ("a", "apps/v1", "StatefulSet"),
    ]
    text = top("").replace("targets: []\n", "targets:\n" + "".join(rows))
    assert len(loaded(tmp_path, text).targets) == 4


def test_ten_thousand_targets_load_in_order_with_one_query(tmp_path: Path) -> None:
    targets = "".join(
        f"- namespace: n{i % 100}\n"
        f"  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: w{i}}}\n"
        "  maxReplicas: 20\n"
        "  metrics:\n" + textwrap.indent(EXTERNAL, "  ")
        for i in range(10_000)
    )
    text = top("queries: {queue_length: up}\n").replace("targets: []\n", f"targets:\n{targets}")
    config = loaded(tmp_path, text)
    assert len(config.targets) == 10_000
    assert config.targets[-1].key == "n99/Deployment/w9999"
    assert len({id(found.queries[0]) for found in config.targets}) == 1


# -- what is no file is refused at once: nothing waits for what a pipe or a device might give ------


@pytest.fixture(params=["a pipe", "a socket", "a device"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name what is no file."""
    return str(request.param)


@pytest.fixture
def special(tmp_path: Path, kind: str) -> Iterator[Path]:
    """Give a path that leads to one."""
    path = tmp_path / "special"
    with socket.socket(socket.AF_UNIX) as bound:
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a socket":
            bound.bind(str(path))
        else:
            path = Path("/dev/zero")
        yield path


@pytest.mark.timeout(20)
def test_a_special_file_is_refused_at_once(tmp_path: Path, special: Path, kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(special)
    assert str(caught.value) == (
        f"{special}: it is {kind}, not a file; pipe the file to `autoscaler validate -` instead"
    )
    for path, text in (
        ("include[0]", f"{PROMETHEUS}include: [{special}]\n"),
        ("prometheus.bearerTokenFile", prometheus(f"bearerTokenFile: {special}\n")),
    ):
        (problem,) = refused(tmp_path, text)
        assert problem.path == path
        assert problem.message == f"must name a file, and {special} is {kind}"
    with pytest.raises(SecretError, match=f"cannot be read: it is {kind}, not a file"):
        SecretFile("bearer token", special).read()


def test_standard_input_has_the_limit_of_a_file() -> None:
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        load(Path("standard input"), content=b"#" * (32 * 2**20 + 1))
