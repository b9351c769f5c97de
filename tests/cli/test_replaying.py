"""`autoscaler replay`: samples of files and the daemon's own record, as text and as JSON."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from autoscaler import clock
from autoscaler.lab import replaying
from autoscaler.lab.engine.replay import Replay, ReplayPlan, run_replay
from autoscaler.lab.rendering import ReplayAnswer
from tests.adapters.record.recording import running
from tests.cli.test_commands import queue_config, ran
from tests.cli.test_recorded import record
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.narrowing import known
from tests.worlds.daemon import write_config

QUEUE = "queue_messages"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write a configuration of two targets of one queue, 30 messages a replica."""
    path = tmp_path / "autoscaler.yaml"
    write_config(path, queue_config("http://127.0.0.1:9", "shop", "web", "worker"))
    return path


def samples(folder: Path, name: str = "load.csv", *, replicas: str = "", rows: int = 240) -> Path:
    """Write an hour of a wave between 30 and 270 messages, a row each 15 s."""
    path = folder / name
    lines = ["t,value,replicas" if replicas else "t,value"]
    for row in range(rows):
        load = round(150 + 120 * math.sin(row / 20))
        lines.append(f"{int(BASE) + 15 * row},{load}" + (f",{replicas}" if replicas else ""))
    path.write_text("\n".join(lines) + "\n")
    return path


def replayed(*arguments: object) -> tuple[int, str, str]:
    return ran("replay", *map(str, arguments))


def answer(*arguments: object) -> ReplayAnswer:
    """Replay; return what is printed as JSON, which has to fit its schema."""
    code, printed, said = replayed(*arguments, "-o", "json")
    assert code == 0, said
    return ReplayAnswer.model_validate_json(printed)


def assuming(folder: Path, text: str) -> tuple[str, Path]:
    """Write a file of assumptions, and return the option that names it."""
    (folder / "assume.yaml").write_text(text)
    return "--assume", folder / "assume.yaml"


def test_a_file_is_the_time_from_its_first_row_to_its_last(config: Path, tmp_path: Path) -> None:
    found = answer("-c", config, "--csv", samples(tmp_path))
    assert (found.begin, found.end) == (BASE, BASE + 3600)
    assert [target.target for target in found.targets] == [
        "shop/Deployment/web",
        "shop/Deployment/worker",
    ]
    target = found.targets[0]
    assert target.models == {QUEUE: "recorded"}
    assert target.assumed == (
        "it begins with 1 replica: how many there were at the begin is not known",
        "a pod is ready 30 s after it is created: nothing says how long",
    )
    assert max(target.lines.replicas) == 9
    assert target.ran is None
    assert target.measures.scored_seconds == 3600
    assert target.measures.changes == len(target.changes) > 3
    assert "above target" in target.changes[0].text


@pytest.mark.parametrize("step", [60, 300, 600, 3600])
def test_a_row_holds_until_the_next_one(config: Path, tmp_path: Path, step: int) -> None:
    loads, file = [90, 240, 60, 60, 300, 30], tmp_path / "load.csv"
    sparse = [(step * number, load) for number, load in enumerate(loads)]
    dense = [(at, loads[at // step]) for at in range(0, step * len(loads), 15)]
    found = []
    for rows in (sparse, dense):
        file.write_text("\n".join(["t,value", *(f"{BASE + at},{load}" for at, load in rows)]))
        (target, _) = answer("-c", config, "--csv", file).targets
        assert target.failed_seconds == 0
        found.append((target.measures, target.changes))
    assert found[0] == found[1]


@pytest.mark.parametrize("rows", ["0,1e300\n60,1e308", "-1e300,1\n1e300,1", "0,-1e308\n1e-9,5"])
def test_absurd_numbers_end_in_a_sentence_or_a_count(tmp_path: Path, rows: str) -> None:
    path, file = tmp_path / "autoscaler.yaml", tmp_path / "load.csv"
    text = json.dumps(queue_config("http://127.0.0.1:9", "shop", "web"))
    most = re.sub(r'"maxReplicas": \d+', f'"maxReplicas": {2**31 - 1}', text)
    write_config(path, json.loads(most))
    file.write_text(f"t,value\n{rows}\n")
    code, _, said = replayed("-c", path, "--csv", file, "-o", "json")
    assert code in {0, 2}
    assert "Traceback" not in said


def test_what_really_ran_stands_beside_it(config: Path, tmp_path: Path) -> None:
    file = samples(tmp_path, replicas="4")
    code, printed, _ = replayed("-c", config, "shop/web", "--csv", file)
    lines = printed.splitlines()
    assert code == 0
    assert lines[:3] == [
        "2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z, 1 h 0 min",
        "",
        "shop/Deployment/web: 4 -> 3 replicas",
    ]
    assert "  load        queue_messages is recorded" in lines
    rows = {line[2:25].strip(): line[25:].split()[:2] for line in lines}
    assert rows["replica-hours"][1] == "4.00"
    assert rows["changes"][1] == "0"
    assert float(rows["under-provisioned time"][0].rstrip("%")) < float(
        rows["under-provisioned time"][1].rstrip("%")
    )


def test_where_nothing_was_scored_nothing_is_told_of_the_demand(tmp_path: Path) -> None:
    span = ("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-01T01:00:00Z")
    csv, report = tmp_path / "load.csv", tmp_path / "report.html"
    csv.write_text(f"t,value\n{int(BASE) - 3600},100\n")  # an hour before the time that is replayed
    of_demand = (
        *(
            "under-provisioned time",
            "over-provisioned time",
            "under-provisioning",
            "over-provisioning",
            "instability",
        ),
        *("missing pod-hours", "worst shortage", "longest shortage"),
    )
    config = tmp_path / "autoscaler.yaml"
    write_config(config, queue_config("http://127.0.0.1:9", "shop", "web"))
    arguments = ("-c", config, "--csv", csv, *span)
    code, printed, said = replayed(*arguments, "--report", report)
    assert code == 0, said
    assert "shop/Deployment/web: 1 -> 1 replica\n" in printed
    told = dict(re.findall(r"^  ([a-z -]+?)  +(\S+)", printed, re.MULTILINE))
    assert {name: told[name] for name in of_demand} == dict.fromkeys(of_demand, "-")
    assert told["replica-hours"] == "1.00"
    assert report.read_text().count('data-label="simulated">-</td>') == len(of_demand)
    (target,) = answer("-c", config, "--csv", csv, *span).targets
    assert (target.measures.scored_seconds, target.measures.replica_hours) == (0.0, 1.0)
    assert (target.measures.tau_under, target.measures.worst_shortage) == (None, None)
    assert set(target.lines.short) == {None}
    write_config(
        config, queue_config("http://127.0.0.1:9", "shop", *(f"web{number}" for number in range(7)))
    )
    # Of so many targets each has a line.
    head, *table = (line.split() for line in replayed(*arguments)[1].splitlines()[2:])
    assert head[0] == "TARGET"
    assert table == [
        [f"shop/Deployment/web{number}", "-", "-", "-", "1.00", "0", "-"] for number in range(7)
    ]


def test_a_part_of_the_time_of_a_file(config: Path, tmp_path: Path) -> None:
    stated = "workloads: [{target: shop/*, replicas: 3, readyAfter: 5s}]\n"
    span = ("--since", "2026-01-01T00:10:00Z", "--until", "2026-01-01T00:20:00Z")
    named = f"{QUEUE}={samples(tmp_path)}"
    found = answer("-c", config, "--csv", named, *span, *assuming(tmp_path, stated))
    assert (found.begin, found.end) == (BASE + 600, BASE + 1200)
    assert {target.first_replicas for target in found.targets} == {3}
    assert all(not target.assumed for target in found.targets)


def cpu_config(folder: Path) -> Path:
    """Write a configuration of a target of cpu, by average value."""
    document: dict[str, object] = queue_config("http://127.0.0.1:9", "shop", "web")
    target: Mapping[str, object] = document["targets"][0]  # type: ignore[index] # a list
    cpu = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}}
    metrics = [{"type": "Resource", "resource": cpu}]
    path = folder / "autoscaler.yaml"
    write_config(path, {**document, "queries": {}, "targets": [{**target, "metrics": metrics}]})
    return path


def test_averages_are_of_a_number_of_pods(tmp_path: Path) -> None:
    config, file = cpu_config(tmp_path), tmp_path / "cpu.csv"
    rows = "".join(f"{int(BASE) + 15 * row},1.0\n" for row in range(40))
    file.write_text("t,value\n" + rows)
    code, printed, _ = replayed("-c", config, "--csv", file)
    assert code == 1
    assert printed.splitlines()[1] == (
        "not replayed: shop/Deployment/web: of how many pods the samples of cpu are the average "
        "is not known: give their file a third column, replicas, or state replicas with --assume"
    )
    stating = assuming(tmp_path, "workloads: [{replicas: 4}]\n")
    (stated,) = answer("-c", config, "--csv", file, *stating).targets
    file.write_text("t,value,replicas\n" + rows.replace(",1.0", ",1.0,4"))
    (counted,) = answer("-c", config, "--csv", f"cpu={file}").targets
    # Four pods that use one core each are eight of half a core.
    for assumption in (stated, counted):
        assert assumption.models == {"cpu": "shared"}
        assert (assumption.first_replicas, assumption.last_replicas) == (4, 8)


def refused(*arguments: object) -> tuple[int, list[str]]:
    """Replay what cannot be; return the exit code and the sentences."""
    code, printed, said = replayed(*arguments)
    assert printed == ""
    return code, said.splitlines()


def test_what_cannot_be_replayed_is_said(config: Path, tmp_path: Path) -> None:
    file, of = samples(tmp_path), ("-c", config)
    bad = tmp_path / "bad.csv"
    bad.write_text("t,value\n1,x\n")
    sentence = "'x' is not a number; leave out rows without a value"
    files = ("--csv", f"cpu={file}", "--csv", bad, "--csv", file)
    assert refused(*of, *files) == (
        2,
        [
            f"--csv cpu={file}: no query or metric is called cpu; there are: {QUEUE}",
            f"{bad}:2: {sentence}",
            f"--csv {file}: a file without a name is given twice",
        ],
    )
    span = ("--since", "2026-01-01T00:20:00Z", "--until", "2026-01-01T00:10:00Z")
    for arguments, code, said in (
        (("--csv", file, "--from-record"), 2, "--from-record and --csv"),
        ((), 2, "--since is missing"),
        (("--since", "soon"), 2, "'soon'"),
        (("--csv", file, *span), 2, "--since (2026-01-01T00:20:00Z) must be before --until"),
        (("--csv", file, "--step", "2h"), 2, "--step (7200 s)"),
        (("--since", "2020-01-01"), 2, "longer than 400 days"),
        (("--csv", file, "shop/wob"), 2, "did you mean shop/web"),
        (("--from-record", "--since", "1h ago"), 2, "name the record with --state-directory"),
    ):
        found, lines = refused(*of, *arguments)
        assert (found, len(lines)) == (code, 1), arguments
        assert said in lines[0]


def test_every_mistake_in_a_file_of_assumptions_is_told(config: Path, tmp_path: Path) -> None:
    wrong = "loads:\n- {model: share}\nworkloads:\n- {replicas: -1, ready: 5s}\n"
    option, assumed = assuming(tmp_path, wrong)
    code, said = refused("-c", config, "--csv", samples(tmp_path), option, assumed)
    assert code == 2
    places = [line.split(": ")[:2] for line in said if line.startswith(str(tmp_path))]
    assert places == [
        [f"{assumed}:2", "loads[0].model"],
        [f"{assumed}:4", "workloads[0].replicas"],
        [f"{assumed}:4", "workloads[0].ready"],
    ], said


def test_a_queue_is_filled_by_a_file_of_its_arrivals(config: Path, tmp_path: Path) -> None:
    of_queue = f"metric: {QUEUE}, model: queue, arrivals: 'sum(rate(sent[1m]))', servedPerPod: 20"
    stated = assuming(tmp_path, f"loads: [{{{of_queue}}}]\n")
    options = ("-c", config, "shop/web", *stated, "--csv")
    (target,) = answer(*options, f"{QUEUE}:arrivals={samples(tmp_path)}").targets
    assert target.models == {QUEUE: "queue"}
    assert target.measures.longest_queue
    told = "is a queue: sum(rate(sent[1m])) arrive per second, and a ready pod takes out 20"
    assert f"{QUEUE} {told}" in target.assumed
    code, said = refused(*options, samples(tmp_path))
    assert (code, said[0].endswith(f"there are: {QUEUE}, {QUEUE}:arrivals")) == (2, True)


def test_what_is_assumed_has_to_be_of_something(config: Path, tmp_path: Path) -> None:
    option, assumed = assuming(
        tmp_path,
        "loads: [{target: shop/other, capacity: 3}, {metric: foo, capacity: 3}]\n"
        "workloads: [{target: other/*, replicas: 3}]\n",
    )
    named = f"{QUEUE}={samples(tmp_path)}"
    assert refused("-c", config, "--csv", named, option, assumed) == (
        2,
        [
            f"{assumed}: loads[0].target: no target is called shop/other",
            f"{assumed}: loads[1].metric: no metric is called foo",
            f"{assumed}: workloads[0].target: no target is called other/*",
        ],
    )


def test_the_record_is_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall", lambda: BASE + 3600)
    config = tmp_path / "autoscaler.yaml"
    text = json.dumps(queue_config("http://127.0.0.1:9", "shop", "web"))
    document = json.loads(text.replace("queue_messages", "queue"))
    document |= {"queries": {"queue": "sum(m0)"}, "stateDirectory": str(tmp_path)}
    write_config(config, document)
    timeline = Timeline(spec(external(average("30"))), replicas=2)
    with running(tmp_path) as writer:
        record(writer, timeline, {15 * sync: 30.0 * (2 + sync // 20) for sync in range(80)})
    (target,) = answer("-c", config, "--from-record", "--since", "2026-01-01T00:00:00Z").targets
    assert known(target.ran).changes == target.measures.changes == 3
    assert (target.first_replicas, target.last_replicas) == (2, 5)
    of = ("-c", config, "--from-record")
    code, said = refused(*of, "--since", "2025-12-01T00:00:00Z", "--until", "2025-12-02T00:00:00Z")
    assert code == 1
    assert said[0].startswith(f"the record in {tmp_path} has nothing of that time; it has 2026-01")


def test_an_interrupt_leaves_what_is_done(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(plan: ReplayPlan, *_: object) -> Replay:
        def at(instant: float) -> None:
            if instant >= BASE + 600:
                raise KeyboardInterrupt

        return run_replay(plan, 1, at)

    monkeypatch.setattr(replaying, "run_replay", interrupted)
    arguments = ("-c", config, "--csv", samples(tmp_path))
    code, printed, said = replayed(*arguments)
    assert (code, said) == (1, "interrupted: replayed up to 2026-01-01T00:10:00Z\n")
    assert printed.startswith("2026-01-01T00:00:00Z to 2026-01-01T00:10:00Z, 10 min 0 s\n")
    assert "shop/Deployment/web: 1 -> " in printed


def test_the_json_has_a_schema(config: Path, tmp_path: Path) -> None:
    _, printed, _ = ran("schema", "--replay")
    schema = json.loads(printed)
    Draft202012Validator.check_schema(schema)
    arguments = ("-c", config, "--csv", samples(tmp_path, replicas="4"), "-o", "json")
    document = json.loads(replayed(*arguments)[1])
    Draft202012Validator(schema).validate(document)
    measures = schema["$defs"]["Measures"]["properties"]
    assert all("description" in measure for measure in measures.values())
    assert set(document["targets"][0]["measures"]) <= set(measures)
    lines = schema["$defs"]["ReplayedLines"]["properties"]
    assert all("description" in line for line in lines.values())
    assert document["targets"][0]["lines"].keys() == lines.keys() >= {"demand", "ready", "short"}


def test_the_json_is_one_line_without_what_is_not_there(config: Path, tmp_path: Path) -> None:
    arguments = ("-c", config, "--csv", samples(tmp_path), "-o", "json", "--processes")
    first = replayed(*arguments, 1)[1]
    assert first == replayed(*arguments, 2)[1]
    assert first.count("\n") == 1
    assert "ran" not in json.loads(first)["targets"][0]
