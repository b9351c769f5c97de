"""`/agreement`: which targets it tells of, since when, and what it refuses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.core.extensions import Extensions, Mode
from autoscaler.core.observation import Hpa, HpaStatus
from tests.adapters.record.agreed import DIFFERENT, WEB, record_with, stretch
from tests.core.builders import BASE, values
from tests.telemetry.results import metrics_of, result_of, target_of
from tests.web.api.serving import Client, asking, views_of

SHADOW = Extensions(mode=Mode.SHADOW)
LIVE = "shop/Deployment/live"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Give a client of a daemon with one target in shadow, compared for two hours, and one live."""
    monkeypatch.setattr(clock, "wall", lambda: BASE + 7000)
    record = record_with(tmp_path, stretch(0, 3000, DIFFERENT), stretch(3600, 3000))
    shadow = target_of("web", extensions=SHADOW)
    spec = replace(shadow.spec, max_replicas=shadow.spec.max_replicas + 7)
    hpa = Hpa("web", spec=spec, statuses=(HpaStatus(BASE, 3, 4),))
    shadowed = result_of(shadow, values(90), hpa=hpa)
    metrics = metrics_of(shadowed, result_of(target_of("live")))
    with asking(views_of(metrics, record=record)) as client:
        yield client


def test_by_default_it_tells_of_those_in_shadow(client: Client) -> None:
    """With the HPA as it stands, and the whole counts of the fleet."""
    told = client.json("/agreement")
    assert (told["live"], told["shadow"]) == (1, 1)
    (target,) = told["targets"]
    assert (target["target"], target["agreement"], target["verdict"]) == (WEB, 0.5, "differs")
    hpa = {key: target["hpa"][key] for key in ("name", "currentReplicas", "desiredReplicas")}
    assert hpa == {"name": "web", "currentReplicas": 3, "desiredReplicas": 4}


def test_a_field_that_differs_is_named_before_it_changes_a_count(client: Client) -> None:
    (target,) = client.json("/agreement")["targets"]
    (field,) = target["differences"]
    assert field["field"] == "maxReplicas"
    assert int(field["theirs"]) == int(field["ours"]) + 7


def test_since_is_an_instant(client: Client) -> None:
    """In UTC, or with an offset."""
    for since in ("2026-01-01T00:59:30Z", "2026-01-01T01:59:30%2B01:00"):
        (target,) = client.json(f"/agreement?since={since}")["targets"]
        assert (target["agreement"], target["verdict"]) == (1.0, "early")
        assert "disagreements" not in target


def test_a_live_target_is_told_of_if_it_is_asked_for(client: Client) -> None:
    """Its mode says what it is; nothing of it has been compared."""
    (target,) = client.json(f"/agreement?target={LIVE}")["targets"]
    assert (target["mode"], target["verdict"]) == ("live", "notCompared")


def test_an_unknown_target_is_a_problem(client: Client) -> None:
    """With those that may be meant."""
    problem = client.problem("/agreement?target=shop/Deployment/wbe", 404)
    assert problem["suggestions"][0] == WEB


@pytest.mark.parametrize("since", ["yesterday", "1h", "", "2026-01-01T00:00:00"])
def test_what_is_no_instant_is_a_problem(client: Client, since: str) -> None:
    """It says what would be right, for whichever text."""
    problem = client.problem(f"/agreement?since={since}", 400)
    (wrong,) = problem["parameters"]
    assert wrong["name"] == "since"
    assert "an instant with its time zone" in wrong["problem"]


def test_a_file_that_cannot_be_read_is_a_problem(client: Client, tmp_path: Path) -> None:
    """The daemon goes on; the sentence names the file."""
    (tmp_path / "record.db").write_bytes(b"no database" * 1000)
    problem = client.problem("/agreement", 503)
    assert "record.db cannot be read" in problem["detail"]


def test_a_record_that_is_not_written_is_why_nothing_is_compared(
    client: Client, tmp_path: Path
) -> None:
    """As where the daemon may not write to its state directory."""
    (tmp_path / "record.db").unlink()
    (target,) = client.json("/agreement")["targets"]
    assert target["verdict"] == "notCompared"
    assert f"nothing is recorded in {tmp_path}" in target["message"]
