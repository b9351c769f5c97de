"""The OpenAPI document: it is valid, complete, and what the endpoints answer is as it says."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from autoscaler.web.site import Views
from tests.core.builders import values
from tests.telemetry.results import extended, metrics_of, result_of, target_of
from tests.web.api.serving import Client, Json, asking, views_of
from tests.worlds.pages.fleets import NOW

DOCS = Path("docs/reference/api.md")
TARGET = "/targets/{namespace}/{kind}/{name}"
ORDERS = "/targets/shop/Deployment/order-worker"
PAST = "from=2026-03-12T01:00:00Z&to=2026-03-12T03:00:00Z"


@pytest.fixture(scope="module")
def document(fleet: Views) -> Json:
    with asking(fleet) as client:
        return client.json("/openapi.json")


def test_the_document_is_valid_openapi(document: Json) -> None:
    validate(document)
    assert document["servers"] == [{"url": "/api/v1"}]
    for path in document["paths"].values():
        assert list(path) == ["get"]
        assert path["get"]["description"]
        parameters = path["get"].get("parameters", [])
        assert all(item["schema"] and item.get("description") for item in parameters)


def check(document: Json, path: str, answer: Any, status: str = "200") -> None:
    """Check an answer against the schema of its endpoint, which allows no other keys."""
    (content,) = document["paths"][path]["get"]["responses"][status]["content"].values()
    schemas = {
        name: {"additionalProperties": False} | value if "properties" in value else value
        for name, value in document["components"]["schemas"].items()
    }
    validator = Draft202012Validator(content["schema"] | {"components": {"schemas": schemas}})
    errors = [
        f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(answer)
    ]
    assert errors == []


@pytest.mark.parametrize(
    ("path", "request_", "status"),
    [
        ("/targets", "/targets", 200),
        ("/targets", "/targets?limit=3", 200),
        ("/targets", "/targets?limit=0&states=x", 400),
        ("/targets", "/targets/a/b/c", 404),
        ("/targets", "/nothing", 404),
        ("/fleet", "/fleet", 200),
        ("/health", "/health", 200),
        ("/changes", f"/changes?{PAST}", 200),
        ("/decisions", "/decisions", 200),
        (f"{TARGET}/chart", f"{ORDERS}/chart?{PAST}", 200),
        (f"{TARGET}/explanation", f"{ORDERS}/explanation?at=2026-03-12T03:00:00Z", 200),
        (f"{TARGET}/explanation", f"{ORDERS}/explanation?lastChange=true", 200),
    ],
)
def test_answers_and_problems_fit_their_schemas(
    client: Client, document: Json, path: str, request_: str, status: int
) -> None:
    answer = client.json(request_) if status == 200 else client.problem(request_, status)
    check(document, path, answer, "200" if status == 200 else "default")
    assert answer


def test_targets_with_every_extension_fit_their_schema(client: Client, document: Json) -> None:
    listed = client.json("/targets")["targets"]
    assert len(listed) == 10
    for target in listed:
        check(document, TARGET, client.json(f"/targets/{target['target']}"))


def test_a_count_beyond_all_numbers_fits_the_schema(document: Json) -> None:
    odd = result_of(target_of("odd"), values(1 << 62))
    with asking(views_of(metrics_of(*extended(), odd))) as client:
        check(document, "/targets", client.json("/targets"))


def test_the_fleet_is_summed_up(client: Client) -> None:
    fleet = client.json("/fleet")
    assert fleet["targets"] == sum(fleet["states"].values()) == 10
    assert fleet["failing"] == fleet["states"]["failing"] == 2
    assert (fleet["atMaximum"], fleet["leads"]) == (1, None)
    listed = client.json("/targets")["targets"]
    known = [target for target in listed if target["currentReplicas"] is not None]
    assert fleet["replicas"] == {"targets": len(known)} | {
        name: sum(target[key] for target in known)
        for name, key in (
            ("current", "currentReplicas"),
            ("desired", "desiredReplicas"),
            ("minimum", "minReplicas"),
            ("maximum", "maxReplicas"),
        )
    }


def test_the_health_has_the_breakers_and_the_record(client: Client) -> None:
    found = client.json("/health")
    assert found["ready"] is True
    assert found["breakers"] == [
        {"server": "default", "tripped": False, "until": None, "held": 0, "targets": 10}
    ]
    assert found["record"]["on"] is True
    assert found["record"]["to"] <= "2026-03-12T03:30:00Z"
    assert NOW == 1_773_286_200


def test_the_page_of_docs_has_every_endpoint_with_its_parameters(document: Json) -> None:
    rows = re.findall(r"^\| `(/[^`]*)` \| (.*) \|$", DOCS.read_text(), re.MULTILINE)
    written = {path: re.findall(r"`(\w+)`", text.partition(";")[2]) for path, text in rows}
    written["/decisions"] = written["/changes"]
    assert written == {
        path: [
            parameter["name"]
            for parameter in item["get"].get("parameters", [])
            if parameter["in"] == "query"
        ]
        for path, item in document["paths"].items()
    }


def test_a_document_is_the_same_each_time(client: Client) -> None:
    first = client.get("/openapi.json")
    tag = client.response.headers["ETag"]
    assert client.get("/openapi.json") == first
    assert client.get("/openapi.json", 304, If_None_Match=tag) == b""
    assert json.loads(first)["info"]["title"] == "autoscaler"


def test_nothing_of_the_api_is_loaded_before_the_first_request() -> None:
    """FastAPI and the models take 10 MB of a daemon that nobody asks."""
    code = (
        "import sys, autoscaler.daemon.service\n"
        "from autoscaler.web import api, pages\n"
        "api.routes(lambda: None), pages.routes(lambda: None)\n"
        "print('fastapi' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
