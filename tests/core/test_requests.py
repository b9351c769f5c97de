"""What a pod requests (semantics 2.6)."""

import pytest

from autoscaler.core.observation import PodRequests
from autoscaler.core.per_pod import request_of
from autoscaler.core.quantity import parse
from tests.core.builders import container

SIDECAR = container("proxy", restartable=True, cpu="100m")
INIT = container("migrate", cpu="3")


def pod_level(**requests: str) -> dict[str, int]:
    """Return pod-level requests in nano-units."""
    return {name.replace("_", "-"): parse(quantity) for name, quantity in requests.items()}


@pytest.mark.parametrize(
    ("requests", "milli"),
    [
        (PodRequests((container(cpu="250m"),)), 250),
        (PodRequests((container(cpu="250m"), container("b", cpu="1"))), 1250),
        # Each container is rounded up to a milli-unit before the sum.
        (PodRequests((container(cpu="489151208n"), container("b", cpu="1n"))), 491),
        # Sidecars run beside the containers; other init containers are over by then.
        (PodRequests((container(cpu="250m"),), (SIDECAR,)), 350),
        (PodRequests((container(cpu="250m"),), (INIT,)), 250),
        (PodRequests((container(cpu="250m"),), (INIT, SIDECAR)), 350),
        (PodRequests((container(cpu="0"),)), 0),
        (PodRequests(()), 0),
    ],
)
def test_containers_and_sidecars_are_summed(requests: PodRequests, milli: int) -> None:
    """Without pod-level requests: containers and restartable init containers."""
    assert request_of(requests, "cpu", None) == milli


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        (PodRequests((container("a", cpu="1"), container("b", memory="1Gi"))), "b"),
        (
            PodRequests(
                (container("a", cpu="1"),), (container("proxy", restartable=True, memory="1"),)
            ),
            "proxy",
        ),
    ],
)
def test_every_container_must_have_a_request(requests: PodRequests, named: str) -> None:
    """One container without is an error that names it; zero would hide it."""
    assert request_of(requests, "cpu", None) == f"container {named} has no request for cpu"


def test_a_container_filter_looks_at_that_container_only() -> None:
    """The others may be without a request; a sidecar can be the one; it must exist."""
    requests = PodRequests((container("app", cpu="2"), container("bare")), (SIDECAR, INIT))
    assert request_of(requests, "cpu", "app") == 2000
    assert request_of(requests, "cpu", "proxy") == 100
    assert request_of(requests, "cpu", "bare") == "container bare has no request for cpu"
    assert request_of(requests, "cpu", "migrate") == "there is no container migrate"
    assert request_of(requests, "cpu", "web") == "there is no container web"


def test_a_pod_level_request_stands_for_the_pod() -> None:
    """It counts instead of the containers' sum."""
    requests = PodRequests((container(cpu="250m"),), (SIDECAR,), pod_level(cpu="4"))
    assert request_of(requests, "cpu", None) == 4000


@pytest.mark.parametrize("other", [{"memory": "1Gi"}, {"hugepages_2Mi": "4Mi"}])
@pytest.mark.parametrize(
    ("containers", "init", "milli"),
    [
        ((container("a", cpu="250m"), container("b")), (), 250),
        ((container("a", cpu="250m"),), (SIDECAR,), 350),
        # The largest init step: a sidecar before it is running, one after it is not yet.
        ((container("a", cpu="250m"),), (SIDECAR, INIT), 3100),
        ((container("a", cpu="250m"),), (INIT, SIDECAR), 3000),
        ((container("a", cpu="5"),), (INIT, SIDECAR), 5100),
        ((container("a"),), (container("only", cpu="2"),), 2000),
        # Two sidecars in a row, both running when the last init step runs.
        (
            (container("a", cpu="1"),),
            (SIDECAR, container("log", restartable=True, cpu="200m"), INIT),
            3300,
        ),
        # One rounding, of the total.
        ((container("a", cpu="489151208n"), container("b", cpu="1n")), (), 490),
    ],
)
def test_another_pod_level_request_switches_to_the_aggregate(
    other: dict[str, str], containers: tuple[object, ...], init: tuple[object, ...], milli: int
) -> None:
    """With a pod-level request of another supported resource the scheduler's aggregate counts."""
    requests = PodRequests(containers, init, pod_level(**other))  # type: ignore[arg-type]  # columns of a table
    assert request_of(requests, "cpu", None) == milli


def test_the_aggregate_needs_some_request() -> None:
    """Where no container requests the resource there is nothing to compare with."""
    requests = PodRequests((container("a"),), (), pod_level(memory="1Gi"))
    assert request_of(requests, "cpu", None) == "no container has a request for cpu"


def test_an_unsupported_pod_level_resource_changes_nothing() -> None:
    """Only cpu, memory and hugepages-* can be requested for the pod as a whole."""
    requests = PodRequests(
        (container("a", cpu="1"), container("b")), (), pod_level(ephemeral_storage="1Gi")
    )
    assert request_of(requests, "cpu", None) == "container b has no request for cpu"


def test_a_container_filter_ignores_pod_level_requests() -> None:
    """ContainerResource metrics compare with the container's own request."""
    requests = PodRequests((container("app", cpu="2"),), (), pod_level(cpu="8"))
    assert request_of(requests, "cpu", "app") == 2000


def test_pod_overhead_is_not_part_of_the_request() -> None:
    """Kubernetes 1.36 adds `spec.overhead` to pod-level requests; later versions and we do not.

    There is no place for an overhead in `PodRequests`, so the pod-level figure stands alone.
    """
    assert set(PodRequests.__slots__) == {"containers", "init_containers", "pod_level"}
    assert request_of(PodRequests((), (), pod_level(cpu="1")), "cpu", None) == 1000
