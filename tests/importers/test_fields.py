"""The outcome of each key of a document, and the settings that targets share."""

from autoscaler.migrate.drafts import SharedSettings
from autoscaler.migrate.fields import Fields, KeyOutcome

DOCUMENT = {
    "kind": "A",
    "spec": {"a": 1, "b": {"c": 2, "d": [{"e": 3}, {"f": 4}, 5]}, "s": "hunter2"},
    "status": {"x": 1},
}


def outcomes(fields: Fields) -> dict[str, KeyOutcome]:
    return {".".join(map(str, entry.location)): entry.outcome for entry in fields.entries()}


def test_a_key_that_is_read_is_carried_over() -> None:
    fields = Fields(DOCUMENT)
    spec = fields.within("spec")
    spec.different("a", why="it differs")
    assert (spec.get("a"), spec.get("nothing"), spec.peek("s")) == (1, None, "hunter2")
    assert fields.get("kind") == "A"
    fields.refused("kind", why="no")
    assert outcomes(fields) == {"kind": KeyOutcome.REFUSED, "spec.a": KeyOutcome.DIFFERENT}


def test_a_key_that_nothing_reads_is_refused() -> None:
    fields = Fields(DOCUMENT)
    for item in fields.within("spec", "b").each("d"):
        item.get("e")
    fields.ignored("status", why="it is one")
    fields.refuse_the_rest()
    refused = [key for key, outcome in outcomes(fields).items() if outcome is KeyOutcome.REFUSED]
    assert refused == ["kind", "spec.a", "spec.b.c", "spec.b.d.1", "spec.b.d.2", "spec.s"]
    again = outcomes(fields)
    fields.refuse_the_rest()
    assert outcomes(fields) == again


def test_a_secret_is_never_shown() -> None:
    fields = Fields(DOCUMENT)
    fields.get("spec", "s")
    fields.within("spec").secret("s")
    fields.get("kind")
    assert [entry.shown for entry in fields.entries()] == ['"A"', ""]
    fields.refused("spec", "s", why="lost")
    assert [entry.sentence for entry in fields.entries()][-1] == "lost"


def test_values_of_a_parsed_text_have_entries_below_it() -> None:
    fields = Fields({"data": {"x": "a: 1"}, "kind": "ConfigMap"})
    inner = fields.within("data").parsed("x", value={"a": 1})
    inner.get("a")
    fields.get("kind")
    assert outcomes(fields) == {"data.x.a": KeyOutcome.CARRIED, "kind": KeyOutcome.CARRIED}
    fields.refuse_the_rest()
    assert len(fields.entries()) == 2


def test_a_sentence_without_the_value_gets_it() -> None:
    fields = Fields({"a": "x1", "b": 2})
    fields.refused("a", why="x1 is wrong")
    fields.refused("b", why="this is wrong")
    assert [entry.sentence for entry in fields.entries()] == [
        "x1 is wrong",
        "this is wrong (got 2)",
    ]


def test_an_equal_query_has_one_name() -> None:
    shared = SharedSettings()
    assert shared.query("a", "up", "why") == "a"
    assert shared.query("b", "up", "why", "too") == "a"
    assert shared.query("a", "down") == "a-2"
    assert shared.query("x/y", {"query": "z"}) == "query"
    assert shared.query_comments == {"a": ["why", "too"]}


def test_an_equal_server_has_one_name() -> None:
    """Servers are called by their hosts; the same address with other settings is another."""
    shared = SharedSettings()
    shared.servers[""] = {"url": "http://prometheus:9090"}
    assert shared.server({"url": "http://prometheus:9090"}) == ""
    assert shared.server({"url": "https://thanos-query.monitoring.svc:9090/x"}) == "thanos-query"
    tenant = {"url": "https://thanos-query.monitoring.svc:9090/x", "headers": {"X": "1"}}
    assert shared.server(tenant) == "thanos-query-2"
    assert shared.server({"url": "http://10.0.0.1"}) == "prometheus"
