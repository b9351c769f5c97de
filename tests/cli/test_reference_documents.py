"""Pages of documents show what the commands print.

With `DOCUMENTS=1` in the environment the pages of docs/reference are written, not compared.
"""

import math
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.other_files import read_file
from autoscaler.lab.rendering import MEASURES
from tests.adapters.record.recording import running
from tests.cli.test_commands import queue_config, ran
from tests.cli.test_recorded import NOW, record, three
from tests.core.builders import BASE
from tests.worlds.daemon import write_config

REFERENCE = Path("docs/reference").absolute()
REPLAY = Path("docs/guides/replay.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", REPLAY, re.DOTALL)
QUEUE: dict[float, float] = {0: 30, 105: 30, 120: 50, 135: 40, 150: 35, 450: 20}
"""The messages at each second."""
MISTAKES = """\
prometheus:
  url: http://prometheus:9090
  timeout: 10
queries:
  queue_length: queue_length
  requests: requests
targets:
- namespace: shop
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: order-worker
  minReplicas: 5
  maxReplicas: 3
  metrics:
  - type: External
    external:
      metric: {name: queue_lenght}
      target: {type: AverageValue, averageValue: 1.5Gb}
"""


def compare(name: str, pattern: str, printed: Callable[[re.Match[str]], str], count: int) -> None:
    """Compare the blocks of a page with the output of commands, or write them."""
    path = REFERENCE / name
    page = path.read_text(encoding="utf-8")
    current, replaced = re.subn(pattern, printed, page, flags=re.DOTALL)
    assert replaced == count
    if os.environ.get("DOCUMENTS"):
        path.write_text(current, encoding="utf-8")
    else:
        assert page == current


def test_explain_and_history_print_what_their_page_shows(
    tmp_path: Path, in_berlin: Callable[[float], None]
) -> None:
    in_berlin(NOW)
    with running(tmp_path) as writer:
        record(writer, three(), QUEUE)

    def printed(block: re.Match[str]) -> str:
        code, out, _ = ran(*shlex.split(block[1]), "--state-directory", str(tmp_path))
        assert code == 0
        return f"```console\n$ autoscaler {block[1]}\n{out}```"

    compare("explain.md", r"```console\n\$ autoscaler ([^\n]*)\n(.*?)```", printed, 2)


def test_validate_prints_the_mistakes_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "autoscaler.yaml").write_text(MISTAKES)
    monkeypatch.chdir(tmp_path)

    def printed(_: re.Match[str]) -> str:
        code, out, err = ran("validate", "autoscaler.yaml")
        assert code == 2
        return f"```text\n{out}{err}```"

    compare("configuration.md", r"```text\nautoscaler\.yaml:3: .*?```", printed, 1)


def test_replay_prints_what_its_page_shows(tmp_path: Path) -> None:
    config, load = tmp_path / "autoscaler.yaml", tmp_path / "load.csv"
    write_config(config, queue_config("http://127.0.0.1:9", "shop", "web"))
    rows = (
        f"{int(BASE) + row * 15},{int(200 + 190 * math.sin(row / 900))},5\n"
        for row in range(2 * 5760)
    )
    load.write_text("t,value,replicas\n" + "".join(rows))
    (block,) = (text for _, text in BLOCKS if "replay -c autoscaler.yaml --csv load.csv" in text)
    lines = block.splitlines()[1:]
    assert lines.pop() == "  ..."
    code, printed, _ = ran("replay", "-c", str(config), "--csv", str(load))
    assert code == 0
    assert printed.splitlines()[: len(lines)] == lines


def test_the_assumptions_of_the_page_of_replays_are_valid(tmp_path: Path) -> None:
    (text,) = (text for _, text in BLOCKS if text.startswith("loads:"))
    path = tmp_path / "assume.yaml"
    path.write_text(text)
    assumptions = read_file(path, "a mapping").model(Assumptions)
    for entries in (assumptions.loads, assumptions.workloads):
        stated = set().union(*(entry.model_fields_set for entry in entries))
        assert stated == set(type(entries[0]).model_fields)


def test_every_measure_of_a_replay_is_explained() -> None:
    for measure in MEASURES:
        assert measure.heading in REPLAY
        assert f"`{to_camel(measure.field)}`" in REPLAY
