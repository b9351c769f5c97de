"""The alert rules and the dashboard, held to Prometheus' own programs and a real server."""

import json
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from autoscaler.telemetry.health import Health
from autoscaler.web.listener import Listener
from autoscaler.web.site import Site, application
from tests.telemetry.queries import ALERTS, AS_HPA, alert_expressions, dashboard_expressions, rules
from tests.telemetry.results import busy
from tests.worlds.cluster.cluster import eventually
from tests.worlds.prometheus.fixtures import StartPrometheus
from tests.worlds.prometheus.server import PrometheusServer, required_program
from tests.worlds.waiting import wait_until


@pytest.mark.parametrize("file", [ALERTS, AS_HPA], ids=lambda file: file.stem)
def test_promtool_accepts_the_rules(file: Path) -> None:
    check = [required_program("promtool"), "check", "rules", "--lint=all", "--lint-fatal"]
    done = subprocess.run([*check, str(file)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"SUCCESS: {len(rules(file))} rules found" in done.stdout


@pytest.mark.parametrize("name", ["alerts", "hpa-metrics"])
def test_the_rules_fire_as_their_timelines_say(name: str) -> None:
    timelines = Path(__file__).with_name(f"{name}.test.yaml")
    command = [required_program("promtool"), "test", "rules", str(timelines)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def api_data(server: PrometheusServer, path: str, **parameters: str) -> Any:
    """Return what the server's API answers; an error of it fails the test."""
    url = f"{server.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - our own server
        document = json.load(response)
    assert document["status"] == "success"
    assert not document.get("warnings")
    return document["data"]


def test_a_real_prometheus_scrapes_the_page_and_evaluates_each_rule(
    start_prometheus: StartPrometheus,
) -> None:
    """It takes every sample; no alert's expression fails; each query of the dashboard has data."""
    health = Health()
    metrics = busy(health)
    app = application(Site(metrics, health).page, lambda _: None)
    with Listener("127.0.0.1", 0, app, lambda _: None) as listener:
        server = start_prometheus([f"127.0.0.1:{listener.port}"], ALERTS.read_text())
        server.wait_for("count_over_time(autoscaler_build_info[1m]) >= 2")
        text = b"".join(metrics.page()[1]).decode().splitlines()
        samples = len([line for line in text if not line.startswith("#")])
        # A scrape that comes when this process is not awake fails, and the next one counts.
        server.wait_for(f"up == 1 and scrape_samples_scraped == {samples}")

        def empty() -> list[str]:
            return [
                where
                for where, expression in dashboard_expressions().items()
                if not api_data(server, "query", query=expression)["result"]
            ]

        eventually(empty, lambda found: found == [])
        for expression in alert_expressions().values():
            api_data(server, "query", query=expression)

        def evaluated() -> list[dict[str, Any]]:
            groups = api_data(server, "rules")["groups"]
            found = [rule for group in groups for rule in group["rules"]]
            return found if all(rule["health"] != "unknown" for rule in found) else []

        health_of = {rule["name"]: rule["health"] for rule in wait_until("rules", evaluated)}
        assert health_of == {rule["alert"]: "ok" for rule in rules()}
