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
from tests.telemetry.results import series_of
from tests.worlds.announced import Announced
from tests.worlds.cluster import scripted
from tests.worlds.memory import external
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import ScriptedServer

UNREADABLE = "gives no answer, or none that can be read"


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
ANSWERS = (True, "answers")


@pytest.mark.parametrize(
    ("script", "counts", "expected"),
    [
        ([faults.answer()], {"200": 1}, ANSWERS),
        ([STARTING, faults.hang_up, faults.answer()], {"503": 1, "error": 1, "200": 1}, ANSWERS),
        ([refused("400 Bad Request", faults.error("bad_data", "no"))], {"400": 1}, ANSWERS),
        ([refused("422 Unprocessable", faults.error("execution", "no"))], {"422": 1}, ANSWERS),
        ([refused("401 Unauthorized")], {"401": 1}, (False, "answers only HTTP 401 Unauthorized")),
        ([refused("404 Not Found")], {"404": 1}, (False, "answers only HTTP 404 Not Found")),
    ],
)
def test_each_try_of_a_query_is_counted_by_its_code(
    script: list[faults.Step], counts: dict[str, int], expected: tuple[bool, str]
) -> None:
    """A bad query says nothing against Prometheus; wrong credentials and a wrong path do."""
    seen = Seen()
    with ScriptedServer(*script) as server, seen.prometheus(server.url) as reader:
        reader.query("up", None, clock.monotonic() + 20)
    assert seen.counts("prometheus") == {(code,): count for code, count in counts.items()}
    assert seen.retries("prometheus") == len(script) - 1
    assert seen.component(Component.PROMETHEUS) == expected
    total = series_of(seen.metrics, "autoscaler_prometheus_request_duration_seconds_sum")
    assert 0 < total[("code", next(iter(counts))), ("server", "default")] < 5


def test_a_prometheus_that_is_not_there_does_not_answer() -> None:
    """A refused connection has no code."""
    seen = Seen()
    with ScriptedServer(faults.answer()) as server:
        url = server.url
    with seen.prometheus(url) as reader:
        reader.query("up", None, clock.monotonic() + 3)
    assert set(seen.counts("prometheus")) == {("error",)}
    assert seen.component(Component.PROMETHEUS) == (False, UNREADABLE)


def test_each_server_has_its_own_counts_health_and_lines() -> None:
    """One that is away says its name, and leaves the default one and the daemon well."""
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
    assert seen.component(Component.PROMETHEUS) == (True, "answers")
    away = "answers only HTTP 401 Unauthorized"
    assert seen.component("prometheus/mimir") == (False, away)
    assert isinstance(failure, QueryFailure)
    assert failure.message.startswith(f"Prometheus mimir at {mimir.url} did not accept")
    (line,) = lines
    assert (line["event"], line["server"]) == ("server_away", "prometheus/mimir")
    assert line["message"] == (
        f"Prometheus mimir {away}; targets whose metrics it has are not scaled by them; the lines "
        "of the targets say more"
    )


def test_a_server_that_one_cannot_sign_in_to_is_not_told_as_silent(tmp_path: Path) -> None:
    """It was not asked; the log and `/readyz` say what is missing."""
    seen, token = Seen(), tmp_path / "token"
    with (
        capture_logs() as lines,
        ScriptedServer(faults.answer()) as server,
        seen.prometheus(server.url, bearer_token_file=str(token)) as reader,
    ):
        reader.query("up", None, clock.monotonic() + 20)
    ok, message = seen.component(Component.PROMETHEUS) or (True, "")
    assert not ok
    assert message.startswith("cannot sign in to Prometheus: ")
    assert str(token) in message
    (line,) = lines
    assert line["message"].startswith(f"{message}; targets whose metrics it has ")
    assert seen.counts("prometheus") == {("error",): 1}


def test_a_server_that_is_away_says_when_it_last_answered() -> None:
    """What comes instead of an answer is told too, and once that it answers again."""
    seconds = 0.0
    announcements = Announced(Health(lambda: seconds)).announcements
    with capture_logs() as lines:
        announcements.prometheus_request("", "200", 0.1)
        seconds = 90.0
        announcements.prometheus_request("", "502", 0.1)
        announcements.prometheus_request("", "200", 0.1)
        announcements.prometheus_request("", "200", 0.1)
    assert [line["event"] for line in lines] == ["server_away", "server_answers"]
    assert lines[0]["message"].startswith(
        "Prometheus answers only HTTP 502 Bad Gateway (the last answer that could be used was "
        "1 min 30 s ago); "
    )


def test_api_requests_are_counted_by_verb_and_code(tmp_path: Path) -> None:
    """A read that is tried again, a write that conflicts, a watch: each request by itself."""
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
    assert seen.component(Component.KUBERNETES) == (True, "answers")


@pytest.mark.parametrize(
    ("answer", "code", "expected"),
    [
        (scripted.failure(403, "Forbidden", "no"), "403", (True, "answers")),
        (
            scripted.failure(401, "Unauthorized", "no"),
            "401",
            (False, "answers only HTTP 401 Unauthorized"),
        ),
        (scripted.Answer(fault="reset"), "error", (False, UNREADABLE)),
    ],
)
def test_an_api_server_answers_unless_it_does_nothing_for_us(
    answer: scripted.Answer, code: str, expected: tuple[bool, str], tmp_path: Path
) -> None:
    """What is forbidden was answered; credentials that are not accepted, and silence, were not."""
    seen = Seen()
    with (
        scripted.ScriptedServer(answer) as server,
        seen.api(server.write_kubeconfig(tmp_path / "kubeconfig")) as api,
    ):
        api.once("GET", "/read", clock.monotonic() + 20)
        api.stream("/watch", {}, 20.0)
    assert seen.counts("kubernetes") == {(code, "GET"): 1, (code, "WATCH"): 1}
    assert seen.component(Component.KUBERNETES) == expected
