"""Configurations and samples for commands that replay: one metric in pods of 10, every 5 min."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

from pydantic.alias_generators import to_camel

from autoscaler.lab.engine.tuning import TuningSpace
from tests.core.builders import BASE
from tests.worlds.daemon import external, target, write_config

PERIOD = 300
DAY = 86_400 // PERIOD
"""So many samples."""
START = int(BASE)

Load = Callable[[int], float]
"""The load by the number of a sample."""


def config(folder: Path, name: str, average: str = "10", *workloads: str, **more: object) -> Path:
    """Write a configuration of one target for each workload, all on the query `load`."""
    rules = {"maxReplicas": 100} | more
    document = {
        "prometheus": {"url": "http://127.0.0.1:9"},
        "syncPeriod": f"{PERIOD}s",
        "queries": {"load": "sum(load)"},
        "targets": [
            target("shop", workload, external("load", average), **rules)
            for workload in workloads or ("web",)
        ],
    }
    return write_config(folder / name, document)


def samples(folder: Path, days: int, load: Load, start: int = START) -> Path:
    rows = [f"{start + PERIOD * number},{load(number):.3f}" for number in range(days * DAY)]
    path = folder / "load.csv"
    path.write_text("\n".join(["t,value", *rows]))
    return path


def wave(number: int) -> float:
    """Return a day's wave with noise, always the same."""
    noise = random.Random(number).gauss(0, 15)  # noqa: S311 - no secret
    return max(0.0, 150 + 120 * math.sin(number / DAY * 2 * math.pi) + noise)


def space(folder: Path, **values: object) -> Path:
    """Write a space in which nothing else is searched."""
    usual: dict[str, object] = {to_camel(key): [] for key in TuningSpace.model_fields}
    path = folder / "space.yaml"
    path.write_text(json.dumps(usual | values))
    return path
