"""`/agreement`: its targets, its time, and failures of the record."""

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


def test_targets_in_shadow_are_listed_with_counts_and_different_fields(client: Client) -> None:
    answer = client.json("/agreement")
    assert (answer["live"], answer["shadow"]) == (1, 1)
    (target,) = answer["targets"]
    assert (target["target"], target["agreement"], target["verdict"]) == (WEB, 0.5, "differs")
    hpa = {key: target["hpa"][key] for key in ("name", "currentReplicas", "desiredReplicas")}
    assert hpa == {"name": "web", "currentReplicas": 3, "desiredReplicas": 4}
    (field,) = target["differences"]
    assert field["field"] == "maxReplicas"
    assert int(field["theirs"]) == int(field["ours"]) + 7


@pytest.mark.parametrize("since", ["2026-01-01T00:59:30Z", "2026-01-01T01:59:30%2B01:00"])
def test_since_leaves_out_older_disagreements(client: Client, since: str) -> None:
    (target,) = client.json(f"/agreement?since={since}")["targets"]
    assert (target["agreement"], target["verdict"]) == (1.0, "early")
    assert "disagreements" not in target


def test_a_named_live_target_is_not_compared(client: Client) -> None:
    (target,) = client.json(f"/agreement?target={LIVE}")["targets"]
    assert (target["mode"], target["verdict"]) == ("live", "notCompared")


def test_without_a_record_nothing_is_compared(client: Client, tmp_path: Path) -> None:
    (tmp_path / "record.db").unlink()
    (target,) = client.json("/agreement")["targets"]
    assert target["verdict"] == "notCompared"
    assert str(tmp_path) in target["message"]
