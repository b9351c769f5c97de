"""Requests of the adapters, counted by what the servers answered."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from autoscaler import clock
from autoscaler.core.series import QueryFailure
from autoscaler.core.spec import Flags
from autoscaler.core.target import Query
from autoscaler.kubernetes import find_api_server
from autoscaler.kubernetes.api import Api
from autoscaler.prometheus import PrometheusReader
from autoscaler.telemetry.health import Component, Health
from autoscaler.transport.answers import AnswerMemory
from tests.adapters.prometheus.reading import settings
from tests.narrowing import assert_parts, instance, known
from tests.telemetry.results import series_of
from tests.worlds.announced import Announced
from tests.worlds.cluster import scripted
from tests.worlds.memory import external
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ScriptedServer


class Seen(Announced):
    """A daemon's metrics and health, told by the adapters."""

    def counts(self, server: str) -> dict[tuple[str, ...], float]:
        """Return how many requests there were, by the labels' values, without zeros."""
        name = f"autoscaler_{server}_request_duration_seconds_count"
        series = series_of(self.metrics, name).items()
        return {
            tuple(value for label, value in labels if label != "server"): count
            for labels, count in series
            if count
        }

    def retries(self, server: str) -> float:
        return sum(series_of(self.metrics, f"autoscaler_{server}_retries_total").values())

    def is_well(self, component: str, *parts: str) -> bool:
        """Return whether a component is well; its message must have some parts."""
        ok, message = known(self.component(component))
        assert_parts(message, *parts)
        return ok

    @contextmanager
    def prometheus(
        self, url: str, name: str = "", bearer_token_file: str | None = None
    ) -> Iterator[PrometheusReader]:
        """Give a reader that tells us."""
        reader = PrometheusReader(
            settings(url, bearer_token_file=bearer_token_file),
            threading.Event(),
            AnswerMemory(1 << 20, parsed=200 << 20),
            name=name,
            observer=self.announcements,
        )
        with closing(reader):
            yield reader

    @contextmanager
    def api(self, kubeconfig: Path, stop: threading.Event | None = None) -> Iterator[Api]:
        """Give an API server that tells us."""
        api = find_api_server(kubeconfig, None).connect(
            stop=stop, request_timeout=10.0, observer=self.announcements.of_cluster("")
        )
        with closing(api):
            yield api


def refused(status: str, body: object = "no") -> faults.Step:
    """Return an answer that is none."""
    return faults.answer(body, status)


STARTING = refused("503 Service Unavailable", faults.error("unavailable", "starting"))


@pytest.mark.parametrize(
    ("script", "counts", "down"),
    [
        ([faults.answer()], {"200": 1}, ""),
        ([STARTING, faults.hang_up, faults.answer()], {"503": 1, "error": 1, "200": 1}, ""),
        ([refused("400 Bad Request", faults.error("bad_data", "no"))], {"400": 1}, ""),
        ([refused("422 Unprocessable", faults.error("execution", "no"))], {"422": 1}, ""),
        ([refused("401 Unauthorized")], {"401": 1}, "HTTP 401 Unauthorized"),
        ([refused("404 Not Found")], {"404": 1}, "HTTP 404 Not Found"),
    ],
)
def test_each_try_of_a_query_is_counted_by_its_code(
    script: list[faults.Step], counts: dict[str, int], down: str
) -> None:
    seen = Seen()
    with ScriptedServer(*script) as server, seen.prometheus(server.url) as reader:
        reader.query("up", None, clock.monotonic() + 20)
    assert seen.counts("prometheus") == {(code,): count for code, count in counts.items()}
    assert seen.retries("prometheus") == len(script) - 1
    assert seen.is_well(Component.PROMETHEUS, down) is not bool(down)
    total = series_of(seen.metrics, "autoscaler_prometheus_request_duration_seconds_sum")
    assert 0 < total[("code", next(iter(counts))), ("server", "default")] < 5


def test_a_refused_connection_is_an_error_without_a_code() -> None:
    seen = Seen()
    with ScriptedServer(faults.answer()) as server:
        url = server.url
    with seen.prometheus(url) as reader:
        reader.query("up", None, clock.monotonic() + 3)
    assert set(seen.counts("prometheus")) == {("error",)}
    assert not seen.is_well(Component.PROMETHEUS)


def test_each_server_has_its_own_counts_health_and_lines() -> None:
    seen = Seen()
    target = external("shop", "a")
    of_mimir = replace(target, queries=(Query("up", server="mimir"),))
    seen.announcements.configure([target, of_mimir], Flags())
    with (
        capture_logs() as lines,
        ScriptedServer(faults.answer()) as default,
        ScriptedServer(refused("401 Unauthorized")) as mimir,
        seen.prometheus(default.url) as reader,
        seen.prometheus(mimir.url, "mimir") as other,
    ):
        reader.query("up", None, clock.monotonic() + 20)
        failure = other.query("up", None, clock.monotonic() + 20)
    counts = series_of(seen.metrics, "autoscaler_prometheus_request_duration_seconds_count")
    assert {labels: count for labels, count in counts.items() if count} == {
        (("code", "200"), ("server", "default")): 1,
        (("code", "401"), ("server", "mimir")): 1,
    }
    assert counts[("code", "200"), ("server", "mimir")] == 0
    assert seen.is_well(Component.PROMETHEUS)
    assert not seen.is_well("prometheus/mimir", "401")
    assert_parts(instance(QueryFailure, failure), "mimir", mimir.url)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("server_away", "warning")
    assert line["server"] == "prometheus/mimir"
    assert_parts(line["message"], "mimir", "401")


def test_a_missing_token_file_is_named_in_the_log_and_the_health(tmp_path: Path) -> None:
    """The server was not asked, so it is not reported as silent."""
    seen, token = Seen(), tmp_path / "token"
    with (
        capture_logs() as lines,
        ScriptedServer(faults.answer()) as server,
        seen.prometheus(server.url, bearer_token_file=str(token)) as reader,
    ):
        reader.query("up", None, clock.monotonic() + 20)
    assert not seen.is_well(Component.PROMETHEUS, str(token))
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("server_away", "warning")
    assert_parts(line["message"], str(token))
    assert seen.counts("prometheus") == {("error",): 1}


def test_an_outage_of_a_server_and_its_end_are_one_line_each() -> None:
    seconds = 0.0
    announcements = Announced(Health(lambda: seconds)).announcements
    with capture_logs() as lines:
        announcements.prometheus_request("", "200", 0.1)
        seconds = 90.0
        for status in ("502", "200", "200"):
            announcements.prometheus_request("", status, 0.1)
    assert [line["event"] for line in lines] == ["server_away", "server_answers"]
    assert_parts(lines[0]["message"], "HTTP 502 Bad Gateway", "1 min 30 s")


def test_api_requests_are_counted_by_verb_and_code(tmp_path: Path) -> None:
    seen = Seen()
    answers = (
        scripted.failure(503, "ServiceUnavailable", "no"),
        scripted.scale(3),
        scripted.failure(409, "Conflict", "no"),
        scripted.Answer(),
    )
    with (
        scripted.ScriptedServer(*answers) as server,
        seen.api(server.write_kubeconfig(tmp_path / "kubeconfig")) as api,
    ):
        api.get("/read", clock.monotonic() + 20)
        api.once("PUT", "/write", clock.monotonic() + 20, body={})
        stream = api.stream("/watch", {"watch": "true"}, 20.0)
        stream.close()  # type: ignore[union-attr]  # a stream, since the server agreed
    assert seen.counts("kubernetes") == {
        ("503", "GET"): 1,
        ("200", "GET"): 1,
        ("409", "PUT"): 1,
        ("200", "WATCH"): 1,
    }
    assert seen.retries("kubernetes") == 1
    assert seen.is_well(Component.KUBERNETES)


@pytest.mark.parametrize(
    ("answer", "code", "well"),
    [
        (scripted.failure(403, "Forbidden", "no"), "403", True),
        (scripted.failure(401, "Unauthorized", "no"), "401", False),
        (scripted.Answer(fault="reset"), "error", False),
    ],
)
def test_an_api_server_is_down_without_answers_or_with_401_only(
    answer: scripted.Answer, code: str, tmp_path: Path, *, well: bool
) -> None:
    seen = Seen()
    with (
        scripted.ScriptedServer(answer) as server,
        seen.api(server.write_kubeconfig(tmp_path / "kubeconfig")) as api,
    ):
        api.once("GET", "/read", clock.monotonic() + 20)
        api.stream("/watch", {}, 20.0)
    assert seen.counts("kubernetes") == {(code, "GET"): 1, (code, "WATCH"): 1}
    assert seen.is_well(Component.KUBERNETES) is well
