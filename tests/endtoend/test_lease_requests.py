"""Requests of the election are requests to the API server, and counted as such."""

from tests.worlds.world import World


def test_each_renewal_of_the_lease_is_counted(world: World) -> None:
    """Without a target one POST makes the Lease, and three ask for the rights to use it.

    Each PUT renews it.
    """
    election = {"enabled": True, "namespace": world.namespace, "retryPeriod": "200ms"}
    away = {"url": "http://127.0.0.1:9"}
    with world.running(world.document(prometheus=away, leaderElection=election)) as daemon:

        def counted(verb: str, code: str) -> float:
            name = "autoscaler_kubernetes_request_duration_seconds_count"
            return daemon.metric(name, verb=verb, code=code)

        daemon.wait("it leads", lambda: daemon.metric("autoscaler_leader") == 1)
        daemon.wait("it has renewed", lambda: counted("PUT", "200") >= 2)
        daemon.wait("the rights are asked for", lambda: counted("POST", "201") >= 4)
        assert counted("POST", "201") == 4
