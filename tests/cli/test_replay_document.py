"""What docs/guides/replay.md shows is what the commands take and print."""

import math
import re
from pathlib import Path

from pydantic.alias_generators import to_camel

from autoscaler.lab.engine.assumptions import Assumptions
from autoscaler.lab.other_files import read_file
from autoscaler.lab.rendering import MEASURES
from tests.cli.test_commands import queue_config, ran
from tests.core.builders import BASE
from tests.worlds.daemon import write_config

PAGE = Path("docs/guides/replay.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_the_replay_of_a_file_is_printed_so(tmp_path: Path) -> None:
    config, load = tmp_path / "autoscaler.yaml", tmp_path / "load.csv"
    write_config(config, queue_config("http://127.0.0.1:9", "shop", "web"))
    rows = (
        f"{int(BASE) + row * 15},{int(200 + 190 * math.sin(row / 900))},5\n"
        for row in range(2 * 5760)
    )
    load.write_text("t,value,replicas\n" + "".join(rows))
    (shown,) = (text for _, text in BLOCKS if "replay -c autoscaler.yaml --csv load.csv" in text)
    lines = shown.splitlines()[1:]
    assert lines.pop() == "  ..."
    code, printed, _ = ran("replay", "-c", str(config), "--csv", str(load))
    assert code == 0
    assert printed.splitlines()[: len(lines)] == lines


def test_the_assumptions_of_the_page_are_valid(tmp_path: Path) -> None:
    (text,) = (text for _, text in BLOCKS if text.startswith("loads:"))
    path = tmp_path / "assume.yaml"
    path.write_text(text)
    found = read_file(path, "a mapping").model(Assumptions)
    for entries in (found.loads, found.workloads):
        stated = set().union(*(entry.model_fields_set for entry in entries))
        assert stated == set(type(entries[0]).model_fields)


def test_every_measure_is_explained() -> None:
    for measure in MEASURES:
        assert measure.heading in PAGE
        assert f"`{to_camel(measure.field)}`" in PAGE
