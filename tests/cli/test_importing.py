"""`autoscaler import`: its input, its output, its report and its exit codes."""

import base64
import json
import re
import textwrap
from pathlib import Path

import pytest
import yaml

from autoscaler.migrate.options import ImportOptions
from tests.cli.test_commands import NOWHERE, ran
from tests.importers.importing import imported, run
from tests.importers.test_horizontal_pod_autoscalers import RULES
from tests.importers.test_horizontal_pod_autoscalers import autoscaler as hpa
from tests.narrowing import assert_parts

WEB = hpa("minReplicas: 2")
POD_METRIC = (
    "metrics: [{type: Pods, pods: {metric: {name: rps}, "
    'target: {type: AverageValue, averageValue: "30"}}}]'
)
SCALED = textwrap.dedent("""\
    apiVersion: keda.sh/v1alpha1
    kind: ScaledObject
    metadata: {name: orders, namespace: bank}
    spec:
      scaleTargetRef: {name: orders}
      minReplicaCount: 1
      advanced: {restoreToOriginalReplicaCount: false}
      triggers:
      - type: prometheus
        authenticationRef: {name: auth}
        metadata:
          {serverAddress: "https://thanos.example", query: sum(orders), threshold: "5",
           authModes: bearer, ignoreNullValues: "false"}
    ---
    apiVersion: keda.sh/v1alpha1
    kind: TriggerAuthentication
    metadata: {name: auth, namespace: bank}
    spec:
      secretTargetRef:
      - {parameter: bearerToken, name: thanos, key: token}
    """)
SECRET = textwrap.dedent(f"""\
    apiVersion: v1
    kind: Secret
    metadata: {{name: thanos, namespace: bank}}
    data: {{token: {base64.b64encode(b"hunter2").decode()}}}
    """)


def test_standard_output_is_a_valid_configuration() -> None:
    code, out, err = ran("import", "-", given=WEB, environment=NOWHERE)
    assert code == 0, err
    (target,) = yaml.safe_load(out)["targets"]
    assert target["scaleTargetRef"]["name"] == "web"
    assert err.startswith("standard input:1: ")
    assert_parts(err, "HorizontalPodAutoscaler shop/web", "shop/Deployment/web")
    code, _, err = ran("validate", "-", given=out, environment=NOWHERE)
    assert code == 0, err


def test_a_file_that_is_there_is_written_over_only_when_asked(tmp_path: Path) -> None:
    """Somebody may have decided in it what was undecided."""
    out = tmp_path / "out.yaml"
    out.write_text("# mine\n")
    given = ("import", "-", "-o", str(out))
    code, _, err = ran(*given, given=WEB, environment=NOWHERE)
    assert code == 2
    assert "--force" in err
    assert out.read_text() == "# mine\n"
    code, _, err = ran(*given, "--force", given=WEB, environment=NOWHERE)
    assert code == 0, err
    assert "targets:" in out.read_text()


def test_the_exit_code_says_how_much_was_imported(tmp_path: Path) -> None:
    assert imported(tmp_path, WEB).code == 0
    assert imported(tmp_path, WEB, "spec: [").code == 3
    output = tmp_path / "out" / "autoscaler.yaml"
    before = output.read_text()
    nothing = imported(tmp_path, "apiVersion: v1\nkind: Service\n")
    assert (nothing.code, nothing.text) == (3, before)
    missing = run([tmp_path / "0.yaml", tmp_path / "none.yaml"], tmp_path / "o.yaml")
    assert missing.code == 1
    (unread,) = (source for source in missing.report["sources"] if "kind" not in source)
    assert unread["file"] == f"{tmp_path}/none.yaml"


def test_an_output_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hpa.yaml").write_text(WEB)
    (tmp_path / "out.yaml").mkdir()
    code, _, error = ran("import", str(tmp_path / "hpa.yaml"), "-o", str(tmp_path / "out.yaml"))
    assert code == 1
    assert error.startswith(f"{tmp_path}/out.yaml ")
    assert error.count("\n") == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["hpa.yaml", "out.yaml"]


def test_a_folder_is_read_with_its_subfolders(tmp_path: Path) -> None:
    folder = tmp_path / "k8s"
    for name in ("b.yml", "a/z.json", ".git/c.yaml", "notes.txt", "a/.swp.yaml"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        named = yaml.safe_load(WEB.replace("web", path.stem.strip(".")))
        path.write_text(json.dumps(named) if path.suffix == ".json" else yaml.safe_dump(named))
    done = run([folder], tmp_path / "o.yaml")
    names = [target["scaleTargetRef"]["name"] for target in done.document["targets"]]
    assert (done.code, names) == (0, ["b", "z"])


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        pytest.param(b"Resources:\n  A: !Ref B\n", 3, "tag", id="tag"),
        pytest.param(b"a: !!python/object:os.system {}\n", 3, "tag", id="python"),
        pytest.param(b"kind: Service\nmetadata: {name: {{ .x }}}\n", 3, "template", id="template"),
        pytest.param(b"a: [", 3, "", id="broken"),
        pytest.param(b"a: " + b"[" * 60 + b"]" * 60, 3, " 40 ", id="deep"),
        pytest.param(b"a: &a [*b]\n", 3, "anchor", id="anchor"),
        pytest.param(b"a: &a [*a]\n", 3, "anchor", id="recursion"),
        pytest.param(b"\xff\xfe", 1, "UTF-8", id="encoding"),
        pytest.param(b"- just a list\n", 0, "", id="list"),
        pytest.param(b"text\n", 0, "", id="text"),
        pytest.param(b"", 0, "", id="empty"),
        pytest.param(b"kind: Kustomization\n", 0, "", id="other-kind"),
    ],
)
def test_an_unrelated_file_is_refused_only_by_name_or_if_it_names_an_autoscaler(
    tmp_path: Path, text: bytes, code: int, part: str
) -> None:
    folder = tmp_path / "k8s"
    folder.mkdir()
    (folder / "hpa.yaml").write_text(WEB)
    (folder / "other.yaml").write_bytes(text)
    done = run([folder], tmp_path / "o.yaml")
    assert (done.code, len(done.config.targets)) == (0, 1)
    assert [source["outcome"] for source in done.report["sources"]].count("other") == bool(text)
    named = run([folder / "hpa.yaml", folder / "other.yaml"], tmp_path / "o.yaml")
    (folder / "other.yaml").write_bytes(b"# a ScaledObject\n" + text)
    for refused in (named, run([folder], tmp_path / "o.yaml")):
        assert (refused.code, len(refused.config.targets)) == (code, 1)
        assert len(refused.sentences) == bool(code)
        assert_parts("".join(refused.sentences), part)


def test_adapter_rules_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    """--adapter-rules takes the same files as the manifests may have."""
    rules = tmp_path / "values.yaml"
    url = "prometheus: {url: http://prom.monitoring, port: 9090}\n"
    rules.write_text(f"{url}rules:\n{textwrap.indent(RULES, '  ').replace('rules:', 'custom:')}")
    done = imported(tmp_path, hpa(POD_METRIC), options=ImportOptions(adapter_rules=[rules]))
    assert done.code == 0
    assert done.document["prometheus"]["url"] == "http://prom.monitoring:9090"
    given = ImportOptions(adapter_rules=[rules], prometheus="http://127.0.0.1:9")
    unasked = imported(tmp_path, hpa(POD_METRIC), options=given)
    assert unasked.document["prometheus"]["url"] == "http://127.0.0.1:9"
    assert unasked.code == 0
    (note,) = unasked.report["notes"]
    assert_parts(note, "http://127.0.0.1:9", "names")


def test_with_shadow_each_target_has_the_mode(tmp_path: Path) -> None:
    done = imported(tmp_path, WEB, options=ImportOptions(shadow=True))
    assert list(done.target)[:3] == ["namespace", "scaleTargetRef", "mode"]
    assert done.target["mode"] == "shadow"


def test_secrets_are_named_and_never_read(tmp_path: Path) -> None:
    done = imported(tmp_path, SCALED, SECRET)
    assert "hunter2" not in done.text + json.dumps(done.report)
    assert done.code == 3
    (secret,) = done.report["secrets"]
    assert secret["file"] == "secrets/bank/thanos/token"
    assert done.document["prometheus"]["bearerTokenFile"] == secret["file"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: thanos, key: token}", "name: ../../../x, key: token}"),
        ("name: thanos, key: token}", "name: thanos, key: ../../../x}"),
        ("name: thanos, key: token}", "name: /etc, key: token}"),
        ("name: thanos, key: token}", "name: thanos, key: ..}"),
        ("name: auth, namespace: bank}", "name: auth, namespace: ../bank}"),
    ],
)
def test_a_name_from_a_manifest_is_never_part_of_a_path_unless_kubernetes_permits_it(
    tmp_path: Path, before: str, after: str
) -> None:
    """The daemon would read the file, and send its content."""
    assert before in SCALED
    done = imported(tmp_path, SCALED.replace(before, after))
    assert done.code == 3
    assert "../" not in yaml.safe_dump(done.document.get("prometheus"))
    assert "/etc" not in yaml.safe_dump(done.document.get("prometheus"))


def test_a_trigger_of_another_source_than_prometheus_is_undecided(tmp_path: Path) -> None:
    other = "  - {type: redis, metadata: {address: r, listName: l, listLength: '5'}}\n---"
    text = SCALED.replace("---", other).replace("    authenticationRef: {name: auth}\n", "")
    text = text.replace("authModes: bearer, ", "")
    part = imported(tmp_path, text)
    assert part.code == 3
    assert any(left["type"] == "redis" for left in part.target["undecided"])
    assert part.decided.targets


def test_an_authentication_without_a_namespace_is_in_the_namespace_of_the_option(
    tmp_path: Path,
) -> None:
    text = SCALED.replace(", namespace: bank", "")
    done = imported(tmp_path, text, options=ImportOptions(namespace="shop"))
    assert "undecided" not in done.target
    (secret,) = done.report["secrets"]
    assert secret["namespace"] == done.target["namespace"] == "shop"


@pytest.mark.parametrize("more", [(), ("-v",)])
def test_the_text_report_has_sources_differences_and_tasks(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    file = tmp_path / "hpa.yaml"
    web = hpa("minReplica: 3").replace("apiVersion: apps/v1, ", "")
    patch = "---\nkind: HorizontalPodAutoscaler\napiVersion: autoscaling/v2\n"
    patch += "metadata: {name: web, namespace: shop}\n"
    api = web.replace("web", "api").replace("  minReplica: 3\n", "")
    file.write_text(f"{web}status: {{}}\n---\na: {{{{ b }}}}\n---\n\n{api}{patch}")
    code, out, _ = ran("import", str(file), "-o", str(tmp_path / "o.yaml"), *more)
    assert code == 3
    sources, _, rest = out.partition("Differences:\n")
    differences, _, rest = rest.partition("To do:\n")
    *tasks, counts = rest.splitlines()
    lines = [line for line in sources.splitlines() if not line.startswith("  ")]
    named = "HorizontalPodAutoscaler shop/{0} -> shop/Deployment/{0}"
    assert [line.split(", ")[0] for line in lines] == [
        f"{file}:1: {named.format('web')}",
        f"{file}:13: {named.format('api')}",
    ]
    keys = re.findall(r"^  (\w+): (.*?)[,:$]", sources, re.MULTILINE)
    of_each = [("exactly", "apiVersion"), ("ignored", "metadata.name")]
    assert keys == ([*of_each, ("ignored", "status"), *of_each] if more else [])
    assert differences.startswith(f"- {file}:5: spec.scaleTargetRef.apiVersion: ")
    assert f"{file}:17)" in differences
    places = [f"{file}:{place}: " for place in ("20", "10", "7: spec.minReplica")]
    for task, part in zip(tasks, (*places, "http://prometheus:9090"), strict=True):
        assert part in task
    assert re.findall(r"\d+", counts) == ["1", "1", "2"]


def test_hostile_texts_are_printed_escaped(tmp_path: Path) -> None:
    text = WEB.replace("name: web}", 'name: "\\u202e\\e[31m|`"}').replace(", namespace: shop", "")
    for report in ("text", "json"):
        (tmp_path / "h.yaml").write_text(text)
        _, out, _ = ran(
            *("import", str(tmp_path / "h.yaml"), "-o", str(tmp_path / "o.yaml")),
            *("--report", report),
        )
        assert out.replace("\n", "").isprintable()
    assert not (tmp_path / "o.yaml").exists() or (tmp_path / "o.yaml").read_text().isascii()
