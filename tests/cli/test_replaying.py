"""`autoscaler replay`: samples of files and the daemon's own record, as text and as JSON."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from autoscaler import clock
from autoscaler.lab import replaying
from autoscaler.lab.engine.replay import Replay, ReplayPlan, run_replay
from autoscaler.lab.rendering import ReplayAnswer
from tests.adapters.record.recording import running
from tests.cli.refusals import assert_refused
from tests.cli.test_commands import queue_config, ran
from tests.cli.test_recorded import record
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.narrowing import assert_parts, known
from tests.worlds.daemon import external as external_metric
from tests.worlds.daemon import write_config

QUEUE = "queue_messages"


def configured(
    folder: Path, *names: str, rules: Mapping[str, object] | None = None, **changes: object
) -> Path:
    """Write a configuration of targets of one queue, 30 messages a replica, unless changed."""
    document: Any = queue_config("http://127.0.0.1:9", "shop", *names) | changes
    document["targets"] = [target | (rules or {}) for target in document["targets"]]
    return write_config(folder / "autoscaler.yaml", document)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write a configuration of two targets of one queue."""
    return configured(tmp_path, "web", "worker")


@pytest.fixture
def arguments(config: Path, tmp_path: Path) -> tuple[object, ...]:
    """Give what replays an hour of both targets."""
    return ("-c", config, "--csv", samples(tmp_path))


def samples(folder: Path, replicas: str = "") -> Path:
    """Write an hour of a wave between 30 and 270 messages, a row each 15 s."""
    path, ending = folder / "load.csv", f",{replicas}" if replicas else ""
    loads = [round(150 + 120 * math.sin(row / 20)) for row in range(240)]
    rows = [f"{int(BASE) + 15 * row},{load}{ending}" for row, load in enumerate(loads)]
    path.write_text("\n".join(["t,value,replicas" if replicas else "t,value", *rows]))
    return path


def replayed(*arguments: object) -> tuple[int, str, str]:
    return ran("replay", *map(str, arguments))


def answer(*arguments: object) -> ReplayAnswer:
    """Replay; return what is printed as JSON, which has to fit its schema."""
    code, printed, err = replayed(*arguments, "-o", "json")
    assert code == 0, err
    return ReplayAnswer.model_validate_json(printed)


def assuming(folder: Path, text: str) -> tuple[str, Path]:
    """Write a file of assumptions, and return the option that names it."""
    (folder / "assume.yaml").write_text(text)
    return "--assume", folder / "assume.yaml"


def test_a_replay_is_from_the_first_row_to_the_last(arguments: tuple[object, ...]) -> None:
    found = answer(*arguments)
    assert (found.begin, found.end) == (BASE, BASE + 3600)
    names = [target.target for target in found.targets]
    assert names == ["shop/Deployment/web", "shop/Deployment/worker"]
    target = found.targets[0]
    assert target.models == {QUEUE: "recorded"}
    replicas, ready = target.assumed
    assert (" 1 replica" in replicas, " 30 s " in ready) == (True, True)
    assert max(target.lines.replicas) == 9
    assert target.ran is None
    assert target.measures.scored_seconds == 3600
    assert target.measures.changes == len(target.changes) > 3
    assert QUEUE in target.changes[0].text


@pytest.mark.parametrize("step", [60, 300, 600, 3600])
def test_a_row_holds_until_the_next_one(config: Path, tmp_path: Path, step: int) -> None:
    loads, file = [90, 240, 60, 60, 300, 30], tmp_path / "load.csv"
    sparse = [(step * number, load) for number, load in enumerate(loads)]
    dense = [(at, loads[at // step]) for at in range(0, step * len(loads), 15)]
    results = []
    for rows in (sparse, dense):
        file.write_text("\n".join(["t,value", *(f"{BASE + at},{load}" for at, load in rows)]))
        (target, _) = answer("-c", config, "--csv", file).targets
        assert target.failed_seconds == 0
        results.append((target.measures, target.changes))
    assert results[0] == results[1]


@pytest.mark.parametrize("rows", ["0,1e300\n60,1e308", "-1e300,1\n1e300,1", "0,-1e308\n1e-9,5"])
def test_absurd_numbers_end_in_an_error_or_a_count(tmp_path: Path, rows: str) -> None:
    config = configured(tmp_path, "web", rules={"maxReplicas": 2**31 - 1})
    file = tmp_path / "load.csv"
    file.write_text(f"t,value\n{rows}\n")
    code, _, err = replayed("-c", config, "--csv", file, "-o", "json")
    assert (code in {0, 2}, "Traceback" in err) == (True, False)


def test_the_recorded_count_is_measured_as_well(config: Path, tmp_path: Path) -> None:
    file = samples(tmp_path, replicas="4")
    code, printed, _ = replayed("-c", config, "shop/web", "--csv", file)
    time, _, title, *lines = printed.splitlines()
    assert (code, title) == (0, "shop/Deployment/web: 4 -> 3 replicas")
    assert time == "2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z, 1 h 0 min"
    rows = {line[2:25].strip(): line[25:].split()[:2] for line in lines}
    assert rows["replica-hours"][1] == "4.00"
    assert rows["changes"][1] == "0"
    short, recorded = (float(share.rstrip("%")) for share in rows["under-provisioned time"])
    assert short < recorded


def test_without_scored_time_the_demand_has_no_measures(tmp_path: Path) -> None:
    csv, report = tmp_path / "load.csv", tmp_path / "report.html"
    csv.write_text(f"t,value\n{int(BASE) - 3600},100\n")  # an hour before the time that is replayed
    span = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-01T01:00:00Z")
    arguments = ("-c", configured(tmp_path, "web"), "--csv", csv, *span)
    code, printed, err = replayed(*arguments, "--report", report)
    assert code == 0, err
    assert "shop/Deployment/web: 1 -> 1 replica\n" in printed
    rows = dict(re.findall(r"^  ([a-z -]+?)  +(\S+)", printed, re.MULTILINE))
    of_demand = {name for name, value in rows.items() if value == "-"}
    assert len(of_demand) == report.read_text().count('data-label="simulated">-</td>') == 8
    assert rows["replica-hours"] == "1.00"
    (target,) = answer(*arguments).targets
    assert (target.measures.scored_seconds, target.measures.replica_hours) == (0.0, 1.0)
    assert (target.measures.tau_under, target.measures.worst_shortage) == (None, None)
    assert set(target.lines.short) == {None}
    # Each of many targets has a line.
    names = [f"web{number}" for number in range(7)]
    configured(tmp_path, *names)
    head, *table = (line.split() for line in replayed(*arguments)[1].splitlines()[2:])
    assert head[0] == "TARGET"
    assert table == [[f"shop/Deployment/{name}", "-", "-", "-", "1.00", "0", "-"] for name in names]


def test_a_part_of_the_time_of_a_file_can_be_replayed(config: Path, tmp_path: Path) -> None:
    stated = "workloads: [{target: shop/*, replicas: 3, readyAfter: 5s}]\n"
    span = ("--since", "2026-01-01T00:10:00Z", "--until", "2026-01-01T00:20:00Z")
    named = f"{QUEUE}={samples(tmp_path)}"
    found = answer("-c", config, "--csv", named, *span, *assuming(tmp_path, stated))
    assert (found.begin, found.end) == (BASE + 600, BASE + 1200)
    assert {target.first_replicas for target in found.targets} == {3}
    assert all(not target.assumed for target in found.targets)


def test_averages_need_a_number_of_pods(tmp_path: Path) -> None:
    cpu = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}}
    rules = {"metrics": [{"type": "Resource", "resource": cpu}]}
    config, file = configured(tmp_path, "web", rules=rules, queries={}), tmp_path / "cpu.csv"
    rows = "".join(f"{int(BASE) + 15 * row},1.0\n" for row in range(40))
    file.write_text("t,value\n" + rows)
    code, printed, _ = replayed("-c", config, "--csv", file)
    assert code == 1
    assert_parts(printed.splitlines()[1], "shop/Deployment/web: ", " cpu ", "--assume")
    stating = assuming(tmp_path, "workloads: [{replicas: 4}]\n")
    (stated,) = answer("-c", config, "--csv", file, *stating).targets
    file.write_text("t,value,replicas\n" + rows.replace(",1.0", ",1.0,4"))
    (counted,) = answer("-c", config, "--csv", f"cpu={file}").targets
    # Four pods that use one core each are eight of half a core.
    for assumption in (stated, counted):
        assert assumption.models == {"cpu": "shared"}
        assert (assumption.first_replicas, assumption.last_replicas) == (4, 8)


def refused(*arguments: object) -> list[str]:
    """Replay with impossible arguments; return the lines of the error."""
    code, printed, err = replayed(*arguments)
    assert (code, printed) == (2, "")
    return err.splitlines()


def test_every_mistake_in_files_of_samples_is_reported(config: Path, tmp_path: Path) -> None:
    file, bad = samples(tmp_path), tmp_path / "bad.csv"
    bad.write_text("t,value\n1,x\n")
    files = ("--csv", f"cpu={file}", "--csv", bad, "--csv", file)
    unknown, value, twice = refused("-c", config, *files)
    assert_parts(unknown, f"--csv cpu={file}: ", f" {QUEUE}")
    assert_parts(value, f"{bad}:2: 'x' ")
    assert_parts(twice, f"--csv {file}: ")


SPAN = "--since 2026-01-01T00:20:00Z --until 2026-01-01T00:10:00Z"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("--csv FILE --from-record", "--from-record and --csv"),
        ("", "--since "),
        ("--since soon", "'soon'"),
        (f"--csv FILE {SPAN}", "--since (2026-01-01T00:20:00Z)"),
        ("--csv FILE --step 2h", "--step (7200 s)"),
        ("--since 2020-01-01", " 400 days"),
        ("--csv FILE shop/wob", " shop/web?"),
        ("--from-record --since 1d", "--state-directory"),
    ],
)
def test_wrong_options_are_refused(config: Path, tmp_path: Path, options: str, part: str) -> None:
    (line,) = refused("-c", config, *options.replace("FILE", str(samples(tmp_path))).split())
    assert part in line


@pytest.mark.parametrize(
    ("loads", "workloads", "places"),
    [
        (
            *("{model: share}", "{replicas: -1, ready: 5s}"),
            ["2: loads[0].model", "4: workloads[0].replicas", "4: workloads[0].ready"],
        ),
        (
            *("{target: x/y, capacity: 3}, {metric: z, capacity: 3}", "{target: x/*, replicas: 3}"),
            [" loads[0].target", " loads[1].metric", " workloads[0].target"],
        ),
    ],
    ids=["values", "names"],
)
def test_every_mistake_in_a_file_of_assumptions_has_its_place(
    config: Path, tmp_path: Path, loads: str, workloads: str, places: list[str]
) -> None:
    stated = assuming(tmp_path, f"loads:\n [{loads}]\nworkloads:\n [{workloads}]\n")
    lines = refused("-c", config, "--csv", f"{QUEUE}={samples(tmp_path)}", *stated)
    assert len(lines) == len(places), lines
    for line, place in zip(lines, places, strict=True):
        assert line.startswith(f"{stated[1]}:{place}: ")


def test_a_queue_is_filled_by_a_file_of_its_arrivals(config: Path, tmp_path: Path) -> None:
    load = {"metric": QUEUE, "model": "queue", "arrivals": "sum(rate(sent[1m]))"}
    stated = assuming(tmp_path, json.dumps({"loads": [load | {"servedPerPod": 20}]}))
    options = ("-c", config, "shop/web", *stated, "--csv")
    (target,) = answer(*options, f"{QUEUE}:arrivals={samples(tmp_path)}").targets
    assert target.models == {QUEUE: "queue"}
    assert target.measures.longest_queue
    (assumed,) = [text for text in target.assumed if text.startswith(QUEUE)]
    assert_parts(assumed, "sum(rate(sent[1m]))", " 20")
    assert refused(*options, samples(tmp_path))[0].endswith(f": {QUEUE}, {QUEUE}:arrivals")


def test_the_record_is_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall", lambda: BASE + 3600)
    rules, queries = {"metrics": [external_metric("queue", "30")]}, {"queue": "sum(m0)"}
    directory = str(tmp_path)
    config = configured(tmp_path, "web", rules=rules, queries=queries, stateDirectory=directory)
    timeline = Timeline(spec(external(average("30"))), replicas=2)
    with running(tmp_path) as writer:
        record(writer, timeline, {15 * sync: 30.0 * (2 + sync // 20) for sync in range(80)})
    options = ("-c", config, "--from-record", "--since")
    (target,) = answer(*options, "2026-01-01T00:00:00Z").targets
    assert known(target.ran).changes == target.measures.changes == 3
    assert (target.first_replicas, target.last_replicas) == (2, 5)
    result = replayed(*options, "2025-12-01T00:00:00Z", "--until", "2025-12-02T00:00:00Z")
    assert_refused(result, 1, str(tmp_path), " 2026-01")


def test_an_interrupt_leaves_what_is_done(
    arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(plan: ReplayPlan, *_: object) -> Replay:
        def progress(instant: float) -> None:
            if instant >= BASE + 600:
                raise KeyboardInterrupt

        return run_replay(plan, 1, progress)

    monkeypatch.setattr(replaying, "run_replay", interrupted)
    code, printed, err = replayed(*arguments)
    assert (code, err.count("\n")) == (1, 1)
    assert_parts(err, "interrupted: ", " 2026-01-01T00:10:00Z")
    assert printed.startswith("2026-01-01T00:00:00Z to 2026-01-01T00:10:00Z, 10 min 0 s\n")
    assert "shop/Deployment/web: 1 -> " in printed


def test_the_json_has_a_schema(config: Path, tmp_path: Path) -> None:
    schema = json.loads(ran("schema", "--replay")[1])
    Draft202012Validator.check_schema(schema)
    arguments = ("-c", config, "--csv", samples(tmp_path, replicas="4"), "-o", "json")
    document = json.loads(replayed(*arguments)[1])
    Draft202012Validator(schema).validate(document)
    parts = schema["$defs"]
    measures, lines = (parts[name]["properties"] for name in ("Measures", "ReplayedLines"))
    assert all("description" in field for field in (*measures.values(), *lines.values()))
    assert set(document["targets"][0]["measures"]) <= set(measures)
    assert document["targets"][0]["lines"].keys() == lines.keys() >= {"demand", "ready", "short"}


def test_the_json_is_one_line_without_empty_fields(arguments: tuple[object, ...]) -> None:
    first, second = (replayed(*arguments, "-o", "json", "--processes", n)[1] for n in (1, 2))
    assert first == second
    assert first.count("\n") == 1
    assert "ran" not in json.loads(first)["targets"][0]
