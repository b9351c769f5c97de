"""The servers that must answer alike: the control plane, and the demo's stand-in for one."""

from collections.abc import Iterator

import pytest

from autoscaler.demo.apiserver import StandInCluster
from tests.worlds.cluster.cluster import ClusterUnderTest
from tests.worlds.cluster.clusters import fresh_namespace, real_cluster

REAL = "control plane"
STAND_IN = "stand-in"


@pytest.fixture(scope="session", params=[REAL, STAND_IN])
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    if request.param == REAL:
        plane = request.getfixturevalue("control_plane")
        request.getfixturevalue("kubelet")
        with real_cluster(plane) as cluster:
            yield cluster
        return
    with (
        StandInCluster(ready_after=1.5) as stand_in,
        ClusterUnderTest(stand_in.url, stand_in.token) as cluster,
    ):
        yield cluster


@pytest.fixture
def namespace(cluster: ClusterUnderTest) -> Iterator[str]:
    with fresh_namespace(cluster, "contract") as name:
        yield name
