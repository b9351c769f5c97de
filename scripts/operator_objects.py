#!/usr/bin/env python3
"""Write what the Prometheus Operator and Grafana import, made of the files in config/.

Without an option it renews the copies that the repository has.  With `--output DIR` it writes the
files of a release: prometheusrule.yaml, podmonitor.yaml and dashboard.json.
"""

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "config"
COMPONENTS = CONFIG / "kubernetes" / "components"

HEAD = """\
# The alert rules of config/alerts.yaml for the Prometheus Operator.  Do not edit:
# `make objects` writes this file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: autoscaler
  namespace: autoscaler
  labels:
    app.kubernetes.io/name: autoscaler
spec:
"""
INPUT = "DS_PROMETHEUS"
"""The data source that Grafana asks for when somebody imports the dashboard."""
PANELS = {
    "state-timeline": "State timeline",
    "stat": "Stat",
    "table": "Table",
    "timeseries": "Time series",
}


def prometheus_rule() -> str:
    """Return config/alerts.yaml as a PrometheusRule, with its comments."""
    return HEAD + textwrap.indent((CONFIG / "alerts.yaml").read_text(), "  ")


def dashboard() -> str:
    """Return config/dashboard.json in the format of "Export for sharing externally"."""
    document: dict[str, Any] = json.loads((CONFIG / "dashboard.json").read_text())
    (source,) = [
        variable for variable in document["templating"]["list"] if variable["type"] == "datasource"
    ]
    source["current"] = {"text": f"${{{INPUT}}}", "value": f"${{{INPUT}}}"}
    asked = {
        "name": INPUT,
        "label": source["label"],
        "description": "",
        "type": "datasource",
        "pluginId": "prometheus",
        "pluginName": "Prometheus",
    }
    used = sorted({panel["type"] for panel in document["panels"]} - {"row"})
    required = [
        {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "12.0.0"},
        {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
        *({"type": "panel", "id": kind, "name": PANELS[kind], "version": ""} for kind in used),
    ]
    head = {"__inputs": [asked], "__elements": {}, "__requires": required, "id": None}
    return f"{json.dumps(head | document, indent=2)}\n"


def copies() -> dict[Path, str]:
    """Return the generated files of the repository with their texts."""
    return {
        COMPONENTS / "prometheusrule" / "prometheusrule.yaml": prometheus_rule(),
        ROOT / "charts" / "autoscaler" / "files" / "alerts.yaml": (
            CONFIG / "alerts.yaml"
        ).read_text(),
    }


def release(folder: Path) -> dict[Path, str]:
    """Return the files of a release, below a folder, with their texts."""
    return {
        folder / "prometheusrule.yaml": prometheus_rule(),
        folder / "podmonitor.yaml": (COMPONENTS / "podmonitor" / "podmonitor.yaml").read_text(),
        folder / "dashboard.json": dashboard(),
    }


def main() -> None:
    """Write the files, and make the folders that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, metavar="DIR", help="write the files of a release")
    folder: Path | None = parser.parse_args().output
    for path, text in (release(folder) if folder else copies()).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
