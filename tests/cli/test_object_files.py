"""Files of PromqlAutoscalers: `validate`, `--objects`, and names of objects."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from autoscaler import clock
from autoscaler.cli.object_files import ObjectReader, with_objects
from autoscaler.config import ConfigError, load
from autoscaler.config.problems import MOST_LOOKED_AT
from autoscaler.config.reading import MOST_OF_A_FILE
from autoscaler.core.sync_result import SyncResult
from autoscaler.daemon.recording import Recorder
from autoscaler.persistence.record import DirectoryRecord
from autoscaler.rendering.instant import recorded_targets
from tests.adapters.record.recording import running
from tests.cli.test_commands import NOWHERE, ran
from tests.core.builders import BASE, average, external, spec
from tests.core.timeline import Timeline
from tests.tables import rows
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.process import free_port
from tests.worlds.record import synced

CONFIG = """
prometheus: {url: "http://127.0.0.1:9", servers: {thanos: {url: "http://127.0.0.1:9"}}}
queries: {shared: sum(shared)}
objects: {enabled: true, quotas: {maxReplicas: 50}}
targets:
- {namespace: shop, scaleTargetRef: {kind: Deployment, name: taken, apiVersion: apps/v1},
   maxReplicas: 5, metrics: [{type: External, external: {metric: {name: shared}, target:
   {type: AverageValue, averageValue: 5}}}]}
"""
OBJECT = """
apiVersion: autoscaling.promql.dev/v1alpha1
kind: PromqlAutoscaler
metadata: {name: orders, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 5
  queries:
    queue: {query: sum(queue_length)}
  metrics:
  - type: External
    external:
      metric: {name: queue}
      target: {type: AverageValue, averageValue: 30}
"""
OTHER = "apiVersion: v1\nkind: Secret\nmetadata: {name: hunter2, name: twice}\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "autoscaler.yaml"
    file.write_text(CONFIG)
    return file


def with_file(folder: Path, text: str) -> Path:
    file = folder / "objects.yaml"
    file.write_text(text)
    return file


def faults(config: Path | None, file: Path) -> list[tuple[int | None, str]]:
    """Return the lines and paths of all faults of a file."""
    known = None if config is None else load(config)
    try:
        ObjectReader(known).targets(file)
    except ConfigError as error:
        return [(problem.line, problem.path) for problem in error.problems]
    return []


NAMED = "spec.metrics[0].external.metric.name"


@pytest.mark.parametrize(
    ("change", "alone", "configured"),
    rows("""\
maxReplicas: 5 => maxReplicas: 0     | 7 spec.maxReplicas        | same
maxReplicas: 5 => maxReplicas: 60    | none                      | 7 spec.maxReplicas
maxReplicas: 5 => minReplicas: 9     | 5 spec.maxReplicas        | same
name: web => nme: web                | 6 spec.scaleTargetRef.nme | same
v1alpha1 => v1                       | 2 apiVersion              | same
namespace: shop => labels: {}        | 4 metadata.namespace      | same
namespace: shop => namespace: Shop   | 4 metadata.namespace      | same
metric: {name: queue} => metric: {name: shared} | none           | 13 NAMED
name: web => name: taken             | none                      | 6 spec.scaleTargetRef.name
sum(queue_length) => sum(            | none                      | 9 spec.queries.queue.query
{query: sum(queue_length)} => sum(a) | 9 spec.queries.queue      | same
maxReplicas: 5 => maxReplicas: 5\\n  maxReplicas: 5 | 8 spec.maxReplicas | same
queries: => queries: [               | 10                        | same
"""),
)
def test_every_fault_has_its_line_and_path(
    config: Path, tmp_path: Path, change: str, alone: str, configured: str
) -> None:
    old, new = change.split(" => ")
    assert old in OBJECT
    own = OBJECT.replace(old, new.replace("\\n", "\n"), 1)
    before = f"{OTHER}---"
    file = with_file(tmp_path, before + own)
    for known, expected in ((None, alone), (config, configured)):
        found = faults(known, file)
        lines = [f"{(line or 0) - before.count(chr(10))} {path}".strip() for line, path in found]
        wanted = alone if expected == "same" else expected
        assert lines == ([] if wanted == "none" else [wanted.replace("NAMED", NAMED)])


def test_all_faults_of_all_objects_are_reported_at_once_also_in_lists(
    config: Path, tmp_path: Path
) -> None:
    manifest = yaml.safe_load(OBJECT)
    wrong = {**manifest, "spec": {**manifest["spec"], "maxReplicas": 0, "paused": "maybe"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [manifest, wrong]}
    file = with_file(tmp_path, f"{OBJECT}---\n{json.dumps(listed)}\n---{OBJECT}")
    paths = ["spec.scaleTargetRef.name"]
    paths = [f"items[0].{paths[0]}", "items[1].spec.maxReplicas", "items[1].spec.paused", *paths]
    assert [path for _, path in faults(config, file)] == paths
    assert [path for _, path in faults(None, file)] == paths


def test_files_without_an_object_are_refused_and_nothing_of_them_is_quoted(
    config: Path, tmp_path: Path
) -> None:
    for text in (OTHER.replace(", name: twice", ""), "", "a: [", "- 1\n", "\xff"):
        code, out, err = ran(
            *("plan", "-c", str(config), "--objects", str(with_file(tmp_path, text))),
            *("--objects", str(tmp_path / "none.yaml")),
        )
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 2
        assert "hunter2" not in err


@pytest.mark.parametrize(
    "text", ["a: &a [*a]\n", f"a: {'[' * 50}{']' * 50}\n", "#" * MOST_OF_A_FILE]
)
def test_files_have_the_bounds_of_a_configuration(tmp_path: Path, text: str) -> None:
    assert len(faults(None, with_file(tmp_path, f"{OBJECT}{text}"))) == 1


@pytest.mark.parametrize("many", ["---\n", "- {kind: PromqlAutoscaler}\n"])
def test_files_have_a_limit_of_documents_and_objects(tmp_path: Path, many: str) -> None:
    text = f"apiVersion: v1\nkind: List\nitems:\n{many * (MOST_LOOKED_AT + 1)}"
    assert len(faults(None, with_file(tmp_path, text))) == 1


def test_validate_takes_files_of_both_kinds(config: Path, tmp_path: Path) -> None:
    file = with_file(tmp_path, f"{OTHER}---{OBJECT}")
    code, out, err = ran("validate", str(config), str(file), environment=NOWHERE)
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(f"{config}: valid")
    assert second.startswith(f"{file}: valid, 1 PromqlAutoscaler; without --config ")
    code, out, _ = ran("validate", "-c", str(config), "-", given=OBJECT, environment=NOWHERE)
    assert (code, out) == (0, "standard input: valid, 1 PromqlAutoscaler\n")
    given = ("validate", "-c", str(config), str(config), str(file))
    assert ran(*given, "-", given=OBJECT, environment=NOWHERE)[0] == 2  # One workload twice.


# -- objects in addition to the targets of a configuration -------------------------------------


def test_the_objects_of_files_are_targets_also_while_a_daemon_ignores_them(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, loaded = with_file(tmp_path, OBJECT), load(config)
    added = with_objects(loaded, [file]).targets
    assert [target.object_name for target in added] == ["", "orders"]
    (query,) = added[1].queries
    assert query.promql == 'sum(queue_length{namespace="shop"})'
    assert with_objects(loaded, None) is loaded
    assert capsys.readouterr().err == ""
    off = loaded.model_copy(
        update={"objects": loaded.objects.model_copy(update={"enabled": False})}
    )
    assert len(with_objects(off, [file]).targets) == 2
    assert "objects.enabled" in capsys.readouterr().err


def test_plan_plans_the_object_that_a_name_selects(config: Path, tmp_path: Path) -> None:
    options = ("-c", str(config), "--objects", str(with_file(tmp_path, OBJECT)), "-o", "json")
    path = tmp_path / "kubeconfig"
    path.touch(mode=0o600)
    server = {"server": f"http://127.0.0.1:{free_port()}"}
    path.write_text(kubeconfig(server, {"token": "s3cret"}))
    for name in ("shop/orders", "shop/web"):
        code, out, _ = ran("plan", *options, name, environment={"KUBECONFIG": str(path)})
        (planned,) = json.loads(out)
        assert (code, planned["target"]) == (1, "shop/Deployment/web")  # Without a cluster.
    assert ran("plan", *options, "shop/none", environment=NOWHERE)[0] == 2


def test_policy_tests_and_replays_take_objects(config: Path, tmp_path: Path) -> None:
    file = with_file(tmp_path, OBJECT)
    tests = tmp_path / "tests.yaml"
    tests.write_text(
        "config: autoscaler.yaml\ntests:\n- {name: grows, target: shop/Deployment/web,"
        " start: {replicas: 1}, series: {queue: 90x8}, expect: [{at: 1m, replicas: 3}]}\n"
    )
    assert ran("test", "--objects", str(file), str(tests))[0] == 0
    assert ran("test", str(tests))[0] == 2
    csv = tmp_path / "load.csv"
    csv.write_text("t,value\n" + "".join(f"{int(BASE) + 15 * row},90\n" for row in range(40)))
    options = ("--objects", str(file), "--csv", str(csv), "-o", "json", "shop/orders")
    code, out, err = ran("replay", "-c", str(config), *options)
    assert code == 0, err
    assert [target["target"] for target in json.loads(out)["targets"]] == ["shop/Deployment/web"]


# -- names -------------------------------------------------------------------------------------


def named(result: SyncResult, name: str) -> SyncResult:
    return replace(result, target=replace(result.target, object_name=name))


def test_explain_history_and_status_find_a_target_by_the_name_of_its_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "wall", lambda: BASE + 60)
    timeline = Timeline(spec(external(average("10"))))
    result = named(synced(timeline.sync("0s", queue=30)), "orders")
    place = ("shop/orders", "--state-directory", str(tmp_path))
    with running(tmp_path) as writer:
        recorder = Recorder(writer)
        recorder.configure([result.target], timeline.flags)
        recorder.report(result)
    (state,) = recorded_targets(DirectoryRecord(tmp_path)).targets
    assert state.document()["object"] == "orders"
    for command in ("explain", "history", "status"):
        code, out, err = ran(command, *place)
        assert code == 0, err
        assert "shop/Deployment/web" in out
        assert ("shop/Deployment/web (orders)" in out) == (command == "status")
    with running(tmp_path) as writer:
        recorder = Recorder(writer)
        recorder.configure([], timeline.flags)
    code, out, err = ran("explain", *place)
    assert code == 0, err
    assert ran("explain", "shop/other", *place[1:])[0] == 2
