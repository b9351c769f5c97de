"""What targets share stands once."""

from autoscaler.migrate.drafts import Shared


def test_an_equal_query_has_one_name() -> None:
    """Another one of the same name gets a number; a name that cannot be is none."""
    shared = Shared()
    assert shared.query("a", "up", "why") == "a"
    assert shared.query("b", "up", "why", "too") == "a"
    assert shared.query("a", "down") == "a-2"
    assert shared.query("x/y", {"query": "z"}) == "query"
    assert shared.query_comments == {"a": ["why", "too"]}


def test_an_equal_server_has_one_name() -> None:
    """Servers are called by their hosts; the same address with other settings is another."""
    shared = Shared()
    shared.servers[""] = {"url": "http://prometheus:9090"}
    assert shared.server({"url": "http://prometheus:9090"}) == ""
    assert shared.server({"url": "https://thanos-query.monitoring.svc:9090/x"}) == "thanos-query"
    tenant = {"url": "https://thanos-query.monitoring.svc:9090/x", "headers": {"X": "1"}}
    assert shared.server(tenant) == "thanos-query-2"
    assert shared.server({"url": "http://10.0.0.1"}) == "prometheus"
