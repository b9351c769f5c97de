"""The commands: their output and their exit codes, in this process or in one of their own."""

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from autoscaler import __version__
from autoscaler.app import app
from tests.narrowing import assert_parts, instance
from tests.tables import rows
from tests.worlds import daemon
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api
from tests.worlds.daemon import external, target, write_config
from tests.worlds.process import free_port
from tests.worlds.prometheus.exporter import Exporter
from tests.worlds.prometheus.server import PrometheusServer
from tests.worlds.waiting import wait_until

COMMANDS = list(instance(TyperGroup, get_command(app)).commands)
NOWHERE = {"KUBECONFIG": "/nonexistent", "HOME": "/nonexistent", "KUBERNETES_SERVICE_HOST": ""}


Ran = tuple[int, str, str]
"""An exit code, the output and the errors."""


def autoscaler(*arguments: str, environment: Mapping[str, str] | None = None) -> Ran:
    """Run a command as a process."""
    done = daemon.command(*arguments, environment=environment, code=None)
    return done.returncode, done.stdout, done.stderr


def ran(
    *arguments: str, environment: Mapping[str, str] | None = None, given: str | None = None
) -> Ran:
    """Run a command in this process; raise an exception that it does not handle."""
    result = CliRunner().invoke(
        app, list(arguments), input=given, env=environment, catch_exceptions=False
    )
    return result.exit_code, result.stdout, result.stderr


MISUSED = """
demo --clusters 0 | --clusters 1
demo --clusters 6 | --clusters 5
demo --clusters 3 --context kind | --clusters --context
explain shop/web --at 1h --last-change | --at --last-change --since
explain shop/web --token-file t | --url -c
explain shop/web --token-file t --state-directory / | certificates tokens passwords
explain shop/web --url http://h --state-directory / | --url --state-directory
explain shop/web --url http://a --user me | --user --password-file
explain shop/web --url http://a --key-file k | --key-file --cert-file
explain shop/web --url http://a --user me --password-file p --token-file t | --token-file --user
status --url http://u:hunter2@host | --url http://127.0.0.1:9191
status --url ftp://hunter2 | --url http://127.0.0.1:9191
status --url http:// | --url http://127.0.0.1:9191
status --url http://h?hunter2 | --url http://127.0.0.1:9191
plan -c a.yaml --ca-file x | --url certificates
import | --from-cluster
import a.yaml -A | --all-namespaces --from-cluster
import --from-cluster -A -n shop | --namespace --all-namespaces
import a.yaml --context x | --context --from-cluster
import a.yaml --prometheus prometheus:9090 | --prometheus http
import a.yaml --report xml | --report xml
pause web | web NAMESPACE/NAME
pause a/b --for 2 | --for unit
pause a/b --for 0s | --for 0
pause a/b --only scale-up --replicas 1 | --only --replicas
resume | --breaker
resume a/b --breaker | --breaker
resume a/b --server mimir | --server --breaker
resume -c /nonexistent a/b | /nonexistent
"""


@pytest.mark.parametrize(("command", "names"), rows(MISUSED))
def test_bad_arguments_exit_with_2_and_name_the_options(command: str, names: str) -> None:
    """Nothing is read or started before; a URL may hold a password and is never repeated."""
    code, out, err = ran(*command.split())
    assert (code, out) == (2, "")
    assert [name for name in names.split() if name not in err] == []
    assert "hunter2" not in err


def queue_config(prometheus: str, namespace: str, *names: str) -> dict[str, object]:
    """Return a configuration of one queue target a name, 30 messages a replica."""
    metric = external("queue_messages", "30")
    return {
        "prometheus": {"url": prometheus, "timeout": "2s"},
        "queries": {"queue_messages": f'sum(queue_messages{{namespace="{namespace}"}})'},
        "targets": [target(namespace, name, metric, maxReplicas=20) for name in names],
    }


def test_the_version_is_the_version_of_the_package() -> None:
    assert autoscaler("--version") == (0, f"autoscaler {__version__}\n", "")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_a_help_of_80_columns(command: str) -> None:
    """Nothing is cut off; times, targets and force have one name, and types are not Python's."""
    code, out, _ = ran(*command.split(), "--help", environment={"COLUMNS": "80"})
    assert code == 0
    assert f"autoscaler {command}" in out
    assert command in {"", "schema"} or "Example" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert ".." not in re.sub(r"[]A-Z]\.\.\.", "", out)
    options = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", out))
    assert not options & {"--from", "--to", "--target", "--targets", "--anyway", "--override"}
    types = r"<(class|str|int|float|bool|list|Path)|\bNone\b|PosixPath|datetime"
    assert not re.search(types, out)


@pytest.mark.parametrize("command", ["plan", "status", "explain", "history"])
def test_options_of_the_connection_to_the_daemon_are_one_group_of_help(command: str) -> None:
    text = ran(command, "--help")[1]
    group = re.split(r"\nConnection [a-z ]+:\n", text)[1]
    names = {line.split()[0] for line in group.splitlines() if line.startswith("  --")}
    signs_in = {"--ca-file", "--cert-file", "--key-file", "--token-file", "--user"}
    assert names == {"--url", "--password-file", *signs_in}


def test_the_environment_names_the_configuration(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_config(tmp_path / f"{name}.yaml", queue_config("http://p:9090", "shop", name, name))
    environment = NOWHERE | {"AUTOSCALER_CONFIG": str(tmp_path / "a.yaml")}
    for words in (["validate"], ["plan"], ["resume", "--breaker"], ["pause", "x/y"]):
        code, _, err = ran(*words, environment=environment)
        assert (code, f"{tmp_path}/a.yaml:" in err) == (2, True), words
    code, _, err = autoscaler("run", environment=environment)
    assert (code, f"{tmp_path}/a.yaml:" in err) == (2, True)
    other = str(tmp_path / "b.yaml")
    assert f"{other}:" in ran("validate", other, environment=environment)[2]
    for command in ("status", "explain", "history", "resume"):
        assert "AUTOSCALER_CONFIG" in ran(command, "--help")[1]


def test_the_environment_names_the_daemon(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    write_config(tmp_path / "a.yaml", queue_config("http://p:9090", "shop", "a"))
    environment = NOWHERE | {"AUTOSCALER_URL": url}
    for words in (["status"], ["history"], ["explain", "shop/a"], ["agreement"]):
        code, _, err = ran(*words, environment=environment)
        assert (code, url in err) == (1, True), words
    assert ran("status", environment=NOWHERE | {"AUTOSCALER_URL": "eu"})[0] == 2
    assert "AUTOSCALER_URL" in ran("adopt", "--help")[1]
    code, _, err = ran("history", "--state-directory", str(tmp_path), environment=environment)
    assert code == 1
    assert_parts(err, str(tmp_path), "record.db")
    assert url not in err


def test_help_imports_neither_the_client_libraries_nor_pydantic() -> None:
    """`--help` stays quick: a slow module is imported by the command that needs it."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "autoscaler", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    slow = {"kubernetes", "requests", "pydantic", "rich", "apscheduler"}
    assert imported.isdisjoint(slow)


def test_validate_prints_every_error_of_every_file_and_exits_2(tmp_path: Path) -> None:
    right = write_config(tmp_path / "right.yaml", queue_config("http://p:9090", "shop", "a"))
    wrong = queue_config("http://p:9090", "shop", "a", "a")
    wrong["syncperiod"] = "15s"
    first = write_config(tmp_path / "first.yaml", wrong)
    second = tmp_path / "second.yaml"
    second.write_text("prometheus: {url: http://p:9090}\ntargets: [")
    code, out, err = autoscaler("validate", str(right), str(first), str(second))
    assert code == 2
    assert f"{right}: valid, 1 target" in out
    lines = err.splitlines()
    assert len([line for line in lines if line.startswith(f"{first}:")]) == 2
    assert any(line.startswith(f"{second}:") for line in lines)
    assert "Traceback" not in err


def test_validate_warns_and_strict_makes_warnings_mistakes(tmp_path: Path) -> None:
    """About files that others can read, with the same words; else --strict changes nothing."""
    document = queue_config("http://p:9090", "shop", "a")
    right = write_config(tmp_path / "right.yaml", document)
    assert ran("validate", "--strict", str(right), environment=NOWHERE)[0] == 0
    token = tmp_path / "token"
    token.write_text("s3cret")
    token.chmod(0o644)
    (tmp_path / "targets.yaml").write_text("targets: []\n")
    secret = {"prometheus": {"url": "https://p", "bearerTokenFile": "token"}}
    file = write_config(tmp_path / "a.yaml", document | secret | {"include": ["targets.yaml"]})
    lenient, out, err = ran("validate", str(file), environment=NOWHERE)
    strict, _, mistakes = ran("validate", "--strict", str(file), environment=NOWHERE)
    assert (lenient, strict) == (0, 2)
    assert out == f"{file}: valid, 1 target in 2 files\n"
    assert err.startswith(f"{file}: warning: prometheus.bearerTokenFile: {token} can be")
    assert err == mistakes
    assert "s3cret" not in err


@pytest.mark.parametrize("command", ["run", "plan", "resume"])
def test_a_command_that_cannot_begin_fails_with_the_reason(command: str, tmp_path: Path) -> None:
    bad = write_config(tmp_path / "bad.yaml", {"prometheus": {}, "targets": []})
    good = write_config(tmp_path / "a.yaml", queue_config("http://127.0.0.1:1", "shop", "a"))
    names = ["shop/a"] * (command == "resume")
    begin = autoscaler if command == "run" else ran
    for file, code, part in ((bad, 2, "prometheus.url"), (good, 1, "autoscaler cannot ")):
        ended, _, err = begin(command, "-c", str(file), *names, environment=NOWHERE)
        assert ended == code
        assert part in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "flag"),
    [("autoscaler", ""), ("autoscaler-targets", "--included"), ("autoscaler-tests", "--tests")],
)
def test_schema_prints_the_committed_schema(name: str, flag: str) -> None:
    committed = Path(__file__).parents[2] / "config" / f"{name}.schema.json"
    code, out, _ = ran("schema", *flag.split())
    assert code == 0
    assert out == committed.read_text(encoding="utf-8"), (
        f"write it again: autoscaler schema {flag} > config/{name}.schema.json"
    )


Plan = Callable[..., Ran]


@pytest.fixture
def plan(
    prometheus_exporter: Exporter,
    prometheus_server: PrometheusServer,
    admin_api: Api,
    namespace: str,
    environment: Mapping[str, str],
    tmp_path: Path,
) -> Plan:
    """Plan for a Deployment of 2 replicas and one that does not exist; 90 messages wait."""
    prometheus_exporter.set("queue_messages", {"namespace": namespace}, 90)
    prometheus_server.wait_for(f'queue_messages{{namespace="{namespace}"}}')
    admin_api.create(
        workloads.collection("Deployment", namespace), workloads.deployment("worker", 2)
    )
    document = queue_config(prometheus_server.url, namespace, "worker", "ghost")
    file = write_config(tmp_path / "plan.yaml", document)
    return functools.partial(ran, "plan", "-c", str(file), environment=environment)


def test_a_plan_shows_a_run_and_writes_nothing(plan: Plan, admin_api: Api, namespace: str) -> None:
    code, out, err = plan()
    assert code == 1, err
    assert f"{namespace}/Deployment/worker  2 -> 3" in out
    assert re.search(r"  queue_messages: \S+/30 .* 3 replicas", out)
    worker, ghost = json.loads(plan("-o", "json")[1])
    assert worker["target"] == f"{namespace}/Deployment/worker"
    assert (worker["desiredReplicas"], worker["rescale"], worker["write"]) == (3, True, "planned")
    assert worker["metrics"][0]["values"] == ["90"]
    assert [stage["name"] for stage in worker["stages"]] == ["combine", "stabilize", "limit"]
    assert "not found" in ghost["scale"]["error"]
    assert ghost["outcome"] == "blocked"
    path = f"{workloads.collection('Deployment', namespace)}/worker"
    assert admin_api.get(path)["spec"]["replicas"] == 2


def test_a_plan_of_one_target_explains_its_decision(plan: Plan, namespace: str) -> None:
    code, out, err = plan("--explain", f"{namespace}/worker")
    assert code == 0, err
    assert_parts(
        out,
        *("2 -> 3", "minReplicas 1, maxReplicas 20", "External queue_messages, "),
        *("45 per replica", "ceil(90 / 30 per replica)", "ScalingActive=True ValidMetricFound"),
    )
    assert "ghost" not in out
    misspelt = f"{namespace}/deployment/wroker"
    code, _, err = plan(misspelt)
    assert code == 2
    assert_parts(err, misspelt, f"{namespace}/worker?")


def test_a_plan_of_no_targets_names_the_file(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    file = write_config(tmp_path / "none.yaml", queue_config("http://127.0.0.1:1", "shop"))
    code, out, err = ran("plan", "-c", str(file), environment=environment)
    assert (code, out.split()[0], err) == (0, str(file), "")


def test_a_plan_of_a_target_knows_its_neighbours(
    plan: Plan, admin_api: Api, namespace: str
) -> None:
    twin = workloads.deployment("ghost", 1)
    labels = {"app": "worker"}
    twin["spec"]["selector"]["matchLabels"] = labels
    twin["spec"]["template"]["metadata"]["labels"] = labels
    admin_api.create(workloads.collection("Deployment", namespace), twin)
    path = workloads.collection("Pod", namespace)
    wait_until("a pod", lambda: admin_api.get(path, labelSelector="app=worker")["items"])
    code, out, err = plan(f"{namespace}/worker", "-o", "json")
    assert code == 1, out + err
    (worker,) = json.loads(out)
    reasons = [condition["reason"] for condition in worker["conditions"]]
    assert "AmbiguousSelector" in reasons
