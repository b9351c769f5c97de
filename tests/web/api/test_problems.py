"""What is not answered: every error below /api/v1 is a problem that says what would be right."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from autoscaler.rendering.answers import FleetTotals
from autoscaler.web.answering import MOST_AT_ONCE, AnswerPool
from autoscaler.web.api import application, endpoints
from autoscaler.web.api.requests import (
    RIGHT,
    AgreementParameters,
    ChartParameters,
    ExplanationParameters,
    HistoryParameters,
    TargetsParameters,
    token_of,
)
from autoscaler.web.site import RECORD_IS_OFF, Views
from tests.narrowing import assert_parts
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import Client, Json, asking, serving, views_of
from tests.web.pages.reading import ask

WEB = "/targets/shop/Deployment/web"


def daemon() -> Views:
    """Return the views of a daemon without a record."""
    return views_of(metrics_of(result_of(target_of("web"))))


def wrong_names(problem: Json) -> list[str]:
    return [parameter["name"] for parameter in problem["parameters"]]


def test_all_wrong_parameters_are_listed_at_once(client: Client) -> None:
    problem = client.problem("/changes?limit=1001&from=yesterday&form=x", 400)
    assert wrong_names(problem) == ["from", "limit", "form"]
    rights = (RIGHT["from"], "1000", "such parameter")
    for parameter, value, right in zip(
        problem["parameters"], ("yesterday", "1001", "x"), rights, strict=True
    ):
        assert parameter["value"] == value
        assert right in parameter["problem"]
        assert_parts(problem["detail"], parameter["name"], value, right)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/targets?limit=0", "limit"),
        ("/targets?state=good", "state"),
        ("/targets?continue=x", "continue"),
        ("/targets?continue=WyJjaGFuZ2VzIiwxXQ", "continue"),
        ("/changes?continue=WyJkZWNpc2lvbnMiLDFd", "continue"),
        (f"/targets?search={'x' * 1001}", "search"),
        ("/decisions?to=2026-11-22T03:12:00", "to"),
        ("/decisions?from=2026-11-22T03:12:00Z&to=2026-11-22T03:12:00Z", "from"),
        ("/changes?" + "&".join(f"target={number}" for number in range(101)), "target"),
        (f"{WEB}/chart?points=7", "points"),
        (f"{WEB}/chart?points=2001", "points"),
        (f"{WEB}/explanation?at=9999-99-99T00:00:00Z", "at"),
        (f"{WEB}/explanation?lastChange=maybe", "lastChange"),
        *((f"/agreement?since={since}", "since") for since in ("yesterday", "1h", "")),
        ("/agreement?since=2026-01-01T00:00:00", "since"),
        ("/fleet?x=1", "x"),
        ("/openapi.json?x=1", "x"),
    ],
)
def test_a_wrong_parameter_is_named(client: Client, path: str, name: str) -> None:
    assert wrong_names(client.problem(path, 400)) == [name]


NUMBERS = [-1, 2**63, -(2**63) - 1, 10**400, 1 << 64]


@pytest.mark.parametrize("number", NUMBERS, ids=["-1", "2^63", "-2^63-1", "10^400", "2^64"])
@pytest.mark.parametrize(
    ("path", "place"),
    [("/changes", ["changes"]), ("/decisions", ["decisions"]), ("/targets", ["targets"])],
)
def test_a_token_with_a_number_out_of_range_is_invalid(
    client: Client, path: str, place: list[str], number: int
) -> None:
    token = token_of(place[0], number, *(["shop/Deployment/web"] if path == "/targets" else []))
    sent = f"{path}?limit=1&continue={token}"
    assert wrong_names(client.problem(sent, 400)) == ["continue"]


ODD = [
    *("", "-1", "0", "-0", "1e400", "1e308", "nan", "inf", "0x10", "1_0", "%d9%a3"),
    *("9" * 900, "-" * 999),
    *("%00", "%ff", "%ed%a0%80", "%1b[2J", "true", "null", "[]", "{}", "999999999999999999999"),
    *("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"),
    *("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00%2b23:59"),
    *("2026-11-22T03:12:00.9999999999999999999Z", "2026-W47-7T00:00:00Z", "20261122T031200Z"),
]
ASKED = {
    "/targets": ("limit", "continue", "state", "search"),
    "/changes": ("limit", "continue", "from", "to", "target"),
    "/decisions": ("limit", "continue", "from", "to", "target"),
    "/agreement": ("since", "target"),
    f"{WEB}/chart": ("from", "to", "points"),
    f"{WEB}/explanation": ("at", "lastChange"),
    f"{WEB}/none": ("x",),
}


@pytest.mark.parametrize("path", ASKED)
def test_no_value_of_a_parameter_is_a_fault(fleet: Views, path: str) -> None:
    faults: list[BaseException] = []
    with asking(fleet, faults) as client:
        for name in ASKED[path]:
            for value in ODD:
                body = client.get_any(f"{path}?{name}={value}")
                assert client.response.status in {200, 400, 404}, (name, value, body)
    assert faults == []


def test_each_parameter_has_a_text_on_what_is_right() -> None:
    models = (
        TargetsParameters,
        HistoryParameters,
        ChartParameters,
        ExplanationParameters,
        AgreementParameters,
    )
    names = {field.alias or name for model in models for name, field in model.model_fields.items()}
    assert names == set(RIGHT)


def test_other_paths_and_methods_are_problems_too(client: Client) -> None:
    for path in ("/nothing", "/targets/", "/targets/a/b", "/../targets"):
        client.problem(path, 404)
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        client.problem("/targets", 405, method)
        assert client.response.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("path", "unknown", "suggestion"),
    [
        ("/targets/", "shop/StatefulSet/web", "shop/Deployment/web"),
        ("/targets/", "shop/Deployment/order-werker", "shop/Deployment/order-worker"),
        ("/agreement?target=", "shop/Deployment/order-werker", "shop/Deployment/order-worker"),
        ("/changes?target=", "shop/Deployment/order-werker", "shop/Deployment/order-worker"),
    ],
)
def test_a_problem_with_an_unknown_target_suggests_a_similar_one(
    client: Client, fleet: Views, path: str, unknown: str, suggestion: str
) -> None:
    page = ask(fleet, f"/targets/{unknown}")
    assert (page.status, f"/targets/{suggestion}" in page.page.links()) == (404, True)
    problem = client.problem(f"{path}{unknown}", 404)
    assert problem["suggestions"][0] == suggestion
    assert_parts(problem["detail"], unknown, suggestion)


@pytest.mark.parametrize("path", ["/changes", "/decisions", f"{WEB}/chart", f"{WEB}/explanation"])
def test_without_a_record_there_is_no_past(path: str) -> None:
    with asking(daemon()) as client:
        assert client.problem(path, 503)["detail"] == RECORD_IS_OFF
        assert client.json(WEB)["state"]["name"] == "web"
        assert client.json("/health")["record"]["on"] is False
    with asking(None) as client:
        for starting in (path, WEB, "/targets", "/fleet", "/health"):
            assert "starting" in client.problem(starting, 503)["detail"]
            assert client.response.headers["Retry-After"] == "3"
        client.json("/openapi.json")


def test_the_text_of_a_fault_is_only_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Views, __: float) -> FleetTotals:
        raise ValueError("a secret")

    monkeypatch.setattr(endpoints, "fleet", broken)
    faults: list[BaseException] = []
    with asking(daemon(), faults) as client:
        assert "secret" not in str(client.problem("/fleet", 500))
        assert client.json("/health")
    assert [str(fault) for fault in faults] == ["a secret"]


def test_only_a_few_requests_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "AnswerPool", lambda most=MOST_AT_ONCE: AnswerPool(most, 0.2))
    made, release, fleet = threading.Semaphore(0), threading.Event(), endpoints.fleet

    def slow(views: Views, now: float) -> FleetTotals:
        made.release()
        release.wait(20)
        return fleet(views, now)

    monkeypatch.setattr(endpoints, "fleet", slow)
    with serving(daemon()) as listener, ThreadPoolExecutor(MOST_AT_ONCE) as others:
        for _ in range(MOST_AT_ONCE):
            others.submit(Client(listener).get, "/fleet")
            assert made.acquire(timeout=20)
        client = Client(listener)
        client.problem("/health", 503)
        assert client.response.headers["Retry-After"]
        release.set()
        others.shutdown()
        assert client.json("/health")


def test_a_name_from_outside_is_printable(client: Client) -> None:
    assert client.problem("/targets/a/b/%1b%E2%80%AE", 404)["detail"].isprintable()
