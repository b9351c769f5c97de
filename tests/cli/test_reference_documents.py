"""What pages of docs/reference show is what the commands print.

With `DOCUMENTS=1` in the environment the pages are written instead of compared.
"""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.record.recording import running
from tests.cli.test_commands import ran
from tests.cli.test_recorded import NOW, record, three

REFERENCE = Path("docs/reference").absolute()
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
    """Compare the blocks of a page with what is printed, or write them."""
    path = REFERENCE / name
    page = path.read_text(encoding="utf-8")
    shown, found = re.subn(pattern, printed, page, flags=re.DOTALL)
    assert found == count
    if os.environ.get("DOCUMENTS"):
        path.write_text(shown, encoding="utf-8")
    else:
        assert page == shown


@pytest.fixture
def _now_in_berlin(in_berlin: Callable[[float], None]) -> None:
    in_berlin(NOW)


@pytest.mark.usefixtures("_now_in_berlin")
def test_explain_and_history_print_what_their_page_shows(tmp_path: Path) -> None:
    """Of a record in which the count goes up, is stabilized, and goes down."""
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
    """One line each, in the order of the file."""
    (tmp_path / "autoscaler.yaml").write_text(MISTAKES)
    monkeypatch.chdir(tmp_path)

    def printed(_: re.Match[str]) -> str:
        code, out, err = ran("validate", "autoscaler.yaml")
        assert code == 2
        return f"```text\n{out}{err}```"

    compare("configuration.md", r"```text\nautoscaler\.yaml:3: .*?```", printed, 1)
