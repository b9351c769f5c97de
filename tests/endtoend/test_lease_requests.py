"""Requests of the election are requests to the API server, and counted as such."""

from collections.abc import Mapping
from pathlib import Path

from tests.controlplane.waiting import wait_until
from tests.endtoend.daemon import write_config
from tests.endtoend.demand import running


def test_each_renewal_of_the_lease_is_counted(
    environment: Mapping[str, str], namespace: str, tmp_path: Path
) -> None:
    """Without a target nothing else is asked: one POST makes the Lease, each PUT renews it."""
    election = {"enabled": True, "namespace": namespace, "retryPeriod": "200ms"}
    document = {
        "prometheus": {"url": "http://127.0.0.1:9"},
        "listen": "127.0.0.1:0",
        "leaderElection": election,
        "targets": [],
    }
    with running(write_config(tmp_path / "autoscaler.yaml", document), environment) as daemon:

        def counted(verb: str, code: str) -> float:
            return daemon.metric(
                "autoscaler_kubernetes_request_duration_seconds_count", verb=verb, code=code
            )

        wait_until("it leads", lambda: daemon.metric("autoscaler_leader") == 1)
        wait_until("it has renewed", lambda: counted("PUT", "200") >= 2)
        assert counted("POST", "201") == 1
