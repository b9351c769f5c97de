"""What the demo shows."""

import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from autoscaler.demo.children import Child, DemoDaemon, LogLine
from autoscaler.demo.queue import QueueState, Workers
from autoscaler.demo.screen import Progress, bars, picture, plain
from autoscaler.demo.story import STORY

CONSOLE = Console(width=100)


def state(elapsed: float, waiting: int, ready: int) -> QueueState:
    return QueueState(elapsed, float(waiting), 0.0, 14.0, "burst", Workers(ready, ready + 1))


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([0, 0], "▁▁"), ([0, 1, 7], "▁▂█"), ([100, 50, 0], "█▅▁"), ([5], "█")],
)
def test_bars_are_relative_to_the_greatest(values: list[int], drawn: str) -> None:
    assert bars(values) == drawn


def test_the_record_keeps_peaks_and_decisions() -> None:
    progress = Progress()
    progress.add(state(1, 10, 1), [LogLine("stays", changed=False)])
    assert not progress.decisions
    progress.add(state(2, 50, 3), [LogLine("scaled 1 -> 3", changed=True)])
    lines = [LogLine(f"held {n}", changed=n == 0) for n in range(3)]
    assert [news.message for news in progress.add(state(3, 20, 2), lines)] == ["held 0"]
    assert (progress.peak_queue, progress.peak_workers) == (50, 3)
    assert [(d.elapsed, d.message) for d in progress.decisions] == [
        (2, "scaled 1 -> 3"),
        (3, "held 0"),
    ]
    assert progress.latest == "held 2"


def test_the_table_shows_queue_workers_and_reasons() -> None:
    progress = Progress()
    progress.add(state(7, 42, 3), [LogLine("scaled 1 -> 3 (why)", changed=True)])
    with CONSOLE.capture() as drawn:
        CONSOLE.print(picture({"": progress}, STORY))
    for expected in ("7 s", "burst", "42", "3 / 4", "scaled 1 -> 3 (why)"):
        assert expected in drawn.get()


def test_plain_lines_come_once_a_second() -> None:
    progress, show = Progress(), plain(CONSOLE)
    with CONSOLE.capture() as printed:
        for moment in (0.0, 0.3, 0.9, 1.1):
            show({"": progress}, {"": progress.add(state(moment, 5, 1), [])})
        scaled = progress.add(state(1.3, 5, 1), [LogLine("[b]scaled", changed=True)])
        show({"": progress}, {"": scaled})
    lines = printed.get().splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "1"]
    assert lines[-1].endswith("autoscaler: [b]scaled")


def test_each_cluster_has_its_rows_and_lines() -> None:
    regions = {"eu": Progress(), "us": Progress()}
    news = {
        "eu": regions["eu"].add(state(8, 42, 3), [LogLine("scaled 1 -> 3", changed=True)]),
        "us": regions["us"].add(state(7, 17, 2), [LogLine("scaled 1 -> 2", changed=True)]),
    }
    with CONSOLE.capture() as captured:
        CONSOLE.print(picture(regions, STORY))
    drawn = captured.get()
    for name, queue, decision in (("eu", 42, "scaled 1 -> 3"), ("us", 17, "scaled 1 -> 2")):
        assert re.search(f"{name} queue +{queue} ", drawn)
        assert re.search(f"{name}: {decision}", drawn)
    assert drawn.index("us: scaled") < drawn.index("eu: scaled")
    show = plain(CONSOLE)
    with CONSOLE.capture() as captured:
        show(regions, news)
        show(regions, {"eu": [], "us": []})
    assert [line.split()[2:4] for line in captured.get().splitlines()] == [
        ["eu", "autoscaler:"],
        ["eu", "burst"],
        ["us", "autoscaler:"],
        ["us", "burst"],
    ]


def test_the_daemon_log_is_read_line_by_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sync = {
        "event": "sync",
        "target": "eu/demo/Deployment/order-worker",
        "level": "debug",
        "message": "stays at 5 replicas",
    }
    line = json.dumps(sync).encode() + b"\n"
    other = json.dumps(sync | {"target": "us/demo/Deployment/web"}).encode() + b"\n"
    log.write_bytes(b'Traceback\n{"event": "started"}\n' + other + line + line[:20])
    child, url = Child("it", ["true"], log), "http://127.0.0.1:1/"
    keys = {"eu": "eu/demo/Deployment/order-worker", "us": "us/demo/Deployment/order-worker"}
    daemon = DemoDaemon(child, tmp_path, url, keys)
    expected = LogLine("stays at 5 replicas", changed=False)
    assert daemon.news() == {"eu": [expected], "us": []}
    assert daemon.news() == {"eu": [], "us": []}
    with log.open("ab") as more:
        more.write(line[20:])
    assert daemon.news() == {"eu": [expected], "us": []}
