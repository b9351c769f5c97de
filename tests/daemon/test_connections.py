"""Connections over a reload: those that did not change are used on, the others are closed."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from autoscaler.config import Config
from autoscaler.config.settings import KubernetesSettings, LeaderElection
from autoscaler.config.shards import Shard
from autoscaler.core.observation import ReadFailure
from autoscaler.daemon.connections import (
    ConnectedCluster,
    Connections,
    alike,
    ports_to_plan,
    reached_by,
)
from autoscaler.daemon.events import EventReporter
from autoscaler.demo.apiserver import StandInCluster
from autoscaler.kubernetes import Api, ConnectError
from autoscaler.kubernetes.election import ALWAYS_OPEN
from autoscaler.kubernetes.leadership import ElectionObserver
from autoscaler.prometheus import PrometheusReader
from autoscaler.sync.ports import Reporter
from autoscaler.transport import UNOBSERVED
from tests.config.documents import loaded
from tests.narrowing import assert_parts, instance
from tests.worlds.announced import Announced

MIMIR = "mimir: {url: http://m, headers: {X-Scope-OrgID: a}}"
BANK = "bank: {url: http://m, headers: {X-Scope-OrgID: b}}"


TARGET = (
    "{clusters: [a, b], namespace: shop, maxReplicas: 5, metrics: [{type: External, external: "
    "{metric: {name: q, query: q}, target: {type: AverageValue, averageValue: 1}}}], "
    "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}"
)


def document(*servers: str, events: bool = True) -> str:
    """Return a configuration with these servers besides the default one."""
    top = f"prometheus: {{url: http://p, servers: {{{', '.join(servers)}}}}}\n"
    return f"{top}events: {str(events).lower()}\ntargets: []\n"


class NoCluster(ConnectedCluster):
    """A cluster that nothing is sent to."""

    def __init__(self, name: str, settings: KubernetesSettings, shard: Shard | None) -> None:
        self.name, self._shard = name, shard
        self.reached_by = reached_by(settings)
        self.own = True
        self.observer = ElectionObserver()
        self.gate = ALWAYS_OPEN
        self.api = cast(Api, None)  # no Event is written

    def close(self) -> None:
        """Close nothing."""


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note which readers and reporters are closed."""
    noted: list[object] = []

    def note(kind: type[PrometheusReader | EventReporter]) -> None:
        close = kind.close

        def noted_close(closed: Any) -> None:
            noted.append(closed)
            close(closed)

        monkeypatch.setattr(kind, "close", noted_close)

    note(PrometheusReader)
    note(EventReporter)
    return noted


class InUse:
    """The connections in use, as a daemon has them."""

    def __init__(self, current: Connections) -> None:
        self.current = current

    @contextmanager
    def replaced(self, config: Config) -> Iterator[Connections]:
        """Replace them, unless the block raises."""
        with self.current.replaced(config) as new:
            yield new
            self.current = new

    def close(self) -> None:
        """Close those in use."""
        self.current.close()


@pytest.fixture
def in_use(tmp_path: Path, closed: list[object]) -> Iterator[InUse]:
    """Give the connections to three servers, and close them in the end."""
    config = loaded(tmp_path, document(MIMIR, BANK))
    stop = threading.Event()
    with closing(InUse(Connections(config, NoCluster, stop, UNOBSERVED))) as connections:
        assert connections.current.prometheus.keys() == {"", "mimir", "bank"}
        assert closed == []
        yield connections


def test_only_changed_servers_are_opened_again(
    tmp_path: Path, in_use: InUse, closed: list[object]
) -> None:
    before = in_use.current.prometheus
    events = in_use.current.events[""]
    changed = MIMIR.replace("a}}", "c}, resourceQueries: {cpu: mine}}")
    with in_use.replaced(loaded(tmp_path, document(changed))) as new:
        assert closed == []  # until the syncs use the new ones
    assert new.prometheus.keys() == {"", "mimir"}
    assert new.prometheus[""] is before[""]
    assert new.prometheus["mimir"] is not before["mimir"]
    assert new.events[""] is events
    assert closed == [before["bank"], before["mimir"]]
    other_query = document(changed.replace("mine", "ours"))
    without_events = document(changed.replace("mine", "ours"), events=False)
    for text in (other_query, without_events):
        with in_use.replaced(loaded(tmp_path, text)) as newer:
            assert newer.prometheus == new.prometheus
    assert closed[2:] == [events]


def test_another_header_file_is_a_new_connection_and_a_new_content_is_not(
    tmp_path: Path, in_use: InUse, closed: list[object]
) -> None:
    with_key = MIMIR.replace("headers", "headersFiles: {X-Key: key}, headers")
    seen = [in_use.current.prometheus["mimir"]]
    for content in ("one", "two"):
        (tmp_path / "key").write_text(content)
        with in_use.replaced(loaded(tmp_path, document(with_key, BANK))) as new:
            seen.append(new.prometheus["mimir"])
        assert closed == [seen[0]]
    assert seen[1] is seen[2]


def test_a_failed_reload_closes_only_what_it_opened(
    tmp_path: Path, in_use: InUse, closed: list[object]
) -> None:
    current = in_use.current
    config = loaded(tmp_path, document(MIMIR, BANK.replace("b}", "c}")))
    with pytest.raises(ZeroDivisionError), in_use.replaced(config) as new:
        raise ZeroDivisionError
    assert in_use.current is current
    assert closed == [new.prometheus["bank"]]


def test_a_reload_opens_and_closes_clusters_and_keeps_the_others(tmp_path: Path) -> None:
    gone = list[str]()

    class Noted(NoCluster):
        """Says when it is closed."""

        def close(self) -> None:
            gone.append(self.name)

    def config(*clusters: str) -> Config:
        return loaded(tmp_path, f"{document()}clusters: [{', '.join(clusters)}]\n")

    eu, us = "{name: eu, context: eu}", "{name: us, context: us}"
    stop = threading.Event()
    with closing(InUse(Connections(config(eu), Noted, stop, UNOBSERVED))) as connections:
        kept = connections.current.clusters["eu"]
        events = connections.current.events["eu"]
        labelled = eu.replace("}", ", seriesLabels: {cluster: a}, maxWritesPerSecond: 1}")
        for clusters in ((labelled, us), (eu,), (eu, us.replace("context: us", "context: b"))):
            with connections.replaced(config(*clusters)) as new:
                assert new.clusters["eu"] is kept
                assert new.events["eu"] is events
        assert gone == ["us"]
        with connections.replaced(config(eu.replace("context: eu", "context: x"), us)) as new:
            assert new.clusters["eu"] is not kept
        assert gone == ["us", "us", "eu"]
    assert gone[3:] == ["us", "eu"]


def test_no_claim_of_a_kubeconfig_takes_another_cluster_out_of_service(tmp_path: Path) -> None:
    announced, stop = Announced(), threading.Event()

    parts = (LeaderElection(), "me", stop, announced.announcements)
    opened = partial(ConnectedCluster, *parts)

    with StandInCluster() as cluster, StandInCluster() as other:
        paths = [
            text.kubeconfig(tmp_path / name) for text, name in ((cluster, "a"), (cluster, "b"))
        ]
        paths.append(other.kubeconfig(tmp_path / "c"))
        entries = ", ".join(f"{{name: {path.name}, kubeconfig: {path}}}" for path in paths)
        config = loaded(tmp_path, f"{document()}clusters: [{entries}]\n")
        with closing(Connections(config, opened, stop, UNOBSERVED)) as current:
            assert list(current.clusters) == ["a", "b", "c"]
            assert current.unreached == {}
            (sentence,) = alike({name: value.api for name, value in current.clusters.items()})
            assert_parts(sentence, "clusters a and b", current.clusters["a"].api.server)


def test_a_plan_of_several_clusters_needs_only_one_of_them(tmp_path: Path) -> None:
    with StandInCluster() as cluster:
        paths = [cluster.kubeconfig(tmp_path / name) for name in ("a", "b")]
        (tmp_path / "c").write_text("{}")
        entries = [f"{{name: {name}, kubeconfig: {tmp_path / name}}}" for name in "abc"]
        named = f"{document()}clusters: [{', '.join(entries)}]\n"
        config = loaded(tmp_path, named.replace("[]", f"[{TARGET.replace('a, b', 'a, b, c')}]"))
        with ports_to_plan(config, config.targets, Reporter(), UNOBSERVED) as (ports, others, _):
            assert list(others) == ["a", "b"]
            ref = config.targets[0].spec.scale_target_ref
            scales = [ports.clusters[name].cached_scale("shop", ref) for name in "abc"]
            assert scales[:2] == [None, None]
            message = instance(ReadFailure, scales[2])
            assert_parts(message, "cluster c", str(tmp_path / "c"))
        paths[0].write_text("{}")
        paths[1].write_text("{}")
        with (
            pytest.raises(ConnectError) as refused,
            ports_to_plan(config, config.targets, Reporter(), UNOBSERVED),
        ):
            """Nothing is left to plan with."""
        assert_parts(refused.value, *(f"cluster {name}" for name in "abc"))
