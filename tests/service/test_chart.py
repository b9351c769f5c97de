"""The Helm chart: its objects for each value, refused values, and an installation."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from autoscaler import __version__
from autoscaler.app import app
from autoscaler.config import load
from tests.service import kustomize, programs
from tests.tables import rows
from tests.worlds.certificates import of_loopback
from tests.worlds.cluster import manifests
from tests.worlds.controlplane import workloads
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.controlplane.kubelet import FakeKubelet
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.prometheus.web_config import HASHES, NEW
from tests.worlds.service_account import MANIFESTS, manifest, token_of

CHART = Path(__file__).parents[2] / "charts" / "autoscaler"
VALUES: Json = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Json = json.loads((CHART / "values.schema.json").read_text())
WEB = {"web.enabled": True, "web.existingSecret": "web"}
COMPONENTS = {f"{name}.enabled": True for name in ("podMonitor", "prometheusRule", "networkPolicy")}
PRESETS: dict[str, Json] = {
    "-": {},
    "alone": {"replicaCount": 1, "leaderElection.enabled": False, "config.targets": []},
    "components": COMPONENTS,
    "namespaced": {"rbac.clusterWide": False, "rbac.namespaces": ["shop"]},
    "objects": {"objects.enabled": True},
    "web": WEB,
    "ingress": WEB | {"web.ingress.enabled": True, "web.ingress.host": "scaler.example"},
}
PATHS = {"pod": "spec template spec", "config": "data autoscaler.yaml"}
LABELS_OF_HELM = r"(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/(instance|managed-by|version)): .*\n"

Helm: TypeAlias = Callable[..., str]

pytestmark = pytest.mark.usefixtures("built_programs")


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """Return a function that runs Helm with values by path, and returns what it prints."""
    folders = {f"HELM_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}

    def run(*arguments: object, values: Json | None = None, code: int = 0, **more: str) -> str:
        given = [f"--set-json={path}={json.dumps(item)}" for path, item in (values or {}).items()]
        done = subprocess.run(
            [programs.locate("helm"), "--namespace=autoscaler", *map(str, arguments), *given],
            env=os.environ | {"KUBECONFIG": "none"} | folders | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    return run


def rendered(helm: Helm, values: Json) -> list[Json]:
    """Return the objects of a release `autoscaler`."""
    return list(yaml.safe_load_all(helm("template", "autoscaler", CHART, values=values)))


def look(objects: list[Json], where: str) -> Any:
    """Return the first object of a kind, or what is at a path in it, or None."""
    kind, *keys = where.split()
    found: Any = next((each for each in objects if each["kind"] == kind), None)
    for key in " ".join(PATHS.get(key, key) for key in keys).split():
        if isinstance(found, str):  # a configuration
            found = yaml.safe_load(found)
        found = found[int(key)] if isinstance(found, list) else (found or {}).get(key)
    return found


def leaves(values: Json, schema: Json, prefix: str = "") -> Iterator[tuple[str, Any, Json]]:
    """Yield each value with its path and schema; a map with free keys is one value."""
    for key, value in values.items():
        found = schema["properties"][key]
        if found.get("additionalProperties") is False and key != "config":
            yield from leaves(value, found, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value, found


LEAVES = {path: value for path, value, _ in leaves(VALUES, SCHEMA)}


def comparable(objects: list[Json]) -> dict[str, Json]:
    """Return objects by their paths, with parsed configurations."""
    for each in objects:
        if each["kind"] == "ConfigMap":
            each["data"] = {name: yaml.safe_load(text) for name, text in each["data"].items()}
    return {kustomize.path(each): each for each in objects if each["kind"] != "Namespace"}


@pytest.mark.parametrize("preset", ["-", "namespaced", "components", "objects"])
def test_the_objects_are_those_of_the_kustomization(preset: str, helm: Helm) -> None:
    """Only the namespace is missing, which `helm install --create-namespace` creates."""
    wanted = kustomize.render(MANIFESTS / ("namespaced" if preset == "namespaced" else "base"))
    if preset == "components":
        names = [path.partition(".")[0].lower() for path in COMPONENTS]
        wanted += [manifest(f"components/{name}/{name}") for name in names]
    if preset == "objects":
        folder = MANIFESTS / "components" / "objects"
        names = ["crd", "clusterrole", "clusterrolebinding", "aggregated"]
        texts = [(folder / f"{name}.yaml").read_text() for name in names]
        wanted += [each for text in texts for each in yaml.safe_load_all(text)]
        for each in wanted:
            if each["kind"] == "ConfigMap":
                text = each["data"]["autoscaler.yaml"]
                each["data"]["autoscaler.yaml"] = f"{text}\nobjects: {{enabled: true}}\n"
    shown = helm("template", "autoscaler", CHART, values=PRESETS[preset])
    shown = shown.replace("  annotations:\n    helm.sh/resource-policy: keep\n", "")
    objects = yaml.safe_load_all(re.sub(LABELS_OF_HELM, "", shown))
    assert comparable(list(objects)) == comparable(wanted)


# preset | values | kind and path | what is there: null for nothing, same for the values themselves
OPTIONS = rows(
    """
- | replicaCount: 3 | Deployment spec replicas | 3
- | image.repository: a.b/c, image.tag: v9 | Deployment pod containers 0 image | a.b/c:v9
- | image.digest: DIGEST, image.tag: x | Deployment pod containers 0 image | autoscaler@DIGEST
- | nameOverride: x | Deployment metadata name | autoscaler-x
- | image.pullPolicy: Always | Deployment pod containers 0 imagePullPolicy | Always
- | fullnameOverride: x | Role rules 1 resourceNames | [x]
- | commonLabels: {a: b} | ServiceAccount metadata labels a | b
- | config: {scaleDownBreaker: null} | ConfigMap config scaleDownBreaker | null
- | config.leaderElection: {name: x} | Role rules 1 resourceNames | [x]
- | config.leaderElection: {name: null}, fullnameOverride: y | Role rules 1 resourceNames |
    [autoscaler]
- | config.web: null, config.downscaleStabilization: 0 | ConfigMap config web | null
alone | config.leaderElection: null | Deployment spec replicas | 1
- | existingConfigMap: x | Deployment pod volumes 0 configMap name | x
- | existingSecret: x | Deployment pod volumes 0 secret secretName | x
- | existingSecret: x, fullnameOverride: y | Role rules 1 resourceNames | [autoscaler]
- | existingSecret: x, leaderElection.leaseName: y | Role rules 1 resourceNames | [y]
web | existingSecret: x, web.auth.basicAuthUsers: false | ConfigMap | null
- | rbac.create: false | Role | null
namespaced | - | ClusterRoleBinding | null
- | rbac.scaleTargets: [{apiGroups: [a], resources: [b]}] | ClusterRole rules 2 resources | [b]
- | rbac.podDeletionCost: true | ClusterRole rules 3 verbs | [patch]
- | rbac.scaleTargets: [{apiGroups: [a], resources: [b]}] | ClusterRole rules 3 |
    {apiGroups: [a], resources: [b/scale], verbs: [get, update, patch]}
- | objects.enabled: true | ClusterRole rules 0 resources | [deployments, statefulsets]
- | objects.enabled: true | ConfigMap config objects | {enabled: true}
- | objects.enabled: true, objects.crd: false | CustomResourceDefinition | null
namespaced | objects.enabled: true | ConfigMap config objects namespaces names | [shop]
- | serviceAccount.create: false | Deployment pod serviceAccountName | default
- | serviceAccount.name: x | ClusterRoleBinding subjects 0 name | x
- | serviceAccount.annotations: {a: b} | ServiceAccount metadata annotations | {a: b}
alone | - | Deployment spec strategy | {type: Recreate}
- | leaderElection.leaseName: x | ConfigMap config leaderElection | {enabled: true, name: x}
web | web.tlsSecret: x | Deployment pod volumes 2 projected sources |
    [{secret: {name: web}}, {secret: {name: x}}]
web | web.port: 8443 | Deployment pod containers 0 ports 1 | {name: https, containerPort: 8443}
web | web.auth.basicAuthUsers: false, web.auth.bearerToken: true |
    ConfigMap config web auth | {bearerTokenFile: /etc/autoscaler-web/token}
web | - | Service spec selector app.kubernetes.io/instance | autoscaler
components | - | NetworkPolicy spec podSelector matchLabels app.kubernetes.io/instance | autoscaler
components | - | PodMonitor spec selector matchLabels app.kubernetes.io/instance | autoscaler
- | - | PodDisruptionBudget spec selector matchLabels app.kubernetes.io/instance | autoscaler
web | web.service.type: NodePort | Service spec type | NodePort
web | web.service.port: 8 | Service spec ports 0 | {name: https, port: 8, targetPort: https,
    protocol: TCP}
web | web.service.annotations: {a: b} | Service metadata annotations | {a: b}
ingress | - | Ingress spec rules 0 host | scaler.example
ingress | web.ingress.className: x | Ingress spec ingressClassName | x
ingress | web.ingress.annotations: {a: b} | Ingress metadata annotations | {a: b}
ingress | web.ingress.tls: [{secretName: x}] | Ingress spec tls | [{secretName: x}]
components | podMonitor.labels: {a: b} | PodMonitor metadata labels a | b
components | podMonitor.interval: 9s, podMonitor.scrapeTimeout: 8s |
    PodMonitor spec podMetricsEndpoints 0 | same
components | prometheusRule.labels: {a: b} | PrometheusRule metadata labels a | b
components | networkPolicy.prometheusNamespace: x | NetworkPolicy
    spec ingress 0 from 0 namespaceSelector matchLabels kubernetes.io/metadata.name | x
web | networkPolicy.enabled: true | NetworkPolicy spec ingress 1 from | null
web | networkPolicy.enabled: true, networkPolicy.webFrom: [{podSelector: {}}] |
    NetworkPolicy spec ingress 1 from | [{podSelector: {}}]
- | podDisruptionBudget.enabled: false | PodDisruptionBudget | null
- | podDisruptionBudget.maxUnavailable: 50% | PodDisruptionBudget spec maxUnavailable | 50%
- | resources.limits.memory: 1Gi | Deployment pod containers 0 resources limits memory | 1Gi
- | state: {hostPath: {path: /x}} | Deployment pod volumes 1 | {name: state, hostPath: {path: /x}}
- | affinity: {podAffinity: {}}, imagePullSecrets: [{name: a}], nodeSelector: {a: b},
    priorityClassName: a, tolerations: [{key: a}],
    topologySpreadConstraints: [{labelSelector: {a: b}}] | Deployment pod | same
- | podAnnotations: {a: b} | Deployment spec template metadata annotations | {a: b}
- | podLabels: {a: b} | Deployment spec template metadata labels a | b
- | extraArgs: [--shadow] | Deployment pod containers 0 args 3 | --shadow
- | extraEnv: [{name: A, value: b}] | Deployment pod containers 0 env 4 | {name: A, value: b}
- | extraVolumes: [{name: x, emptyDir: {}}] | Deployment pod volumes 2 | {name: x, emptyDir: {}}
- | extraVolumeMounts: [{name: x}] | Deployment pod containers 0 volumeMounts 2 | {name: x}
""".replace("DIGEST", f"sha256:{'0' * 64}")
)


def values_of(preset: str, written: str) -> Json:
    found: Json = PRESETS[preset] | yaml.safe_load(f"{{{written.strip('-')}}}")
    return found


@pytest.mark.parametrize(("preset", "written", "where", "wanted"), OPTIONS)
def test_a_value_changes_what_it_names(
    preset: str, written: str, where: str, wanted: str, helm: Helm
) -> None:
    found = look(rendered(helm, values_of(preset, written)), where)
    if wanted == "same":
        for name, value in values_of("-", written).items():
            assert found[name.rpartition(".")[2]] == value
    else:
        assert found == yaml.safe_load(wanted)


def test_each_value_is_in_a_row() -> None:
    written = [f"{path}." for row in OPTIONS for path in values_of(*row[:2])]
    for path in LEAVES:
        assert any(each.startswith(f"{path}.") for each in written), path


REFUSED = rows("""
- | existingConfigMap: a, existingSecret: b | existingConfigMap
- | leaderElection.enabled: false | replicaCount
- | rbac.clusterWide: false | rbac.namespaces
- | rbac.namespaces: [shop] | rbac.clusterWide
- | web.enabled: true | web.existingSecret
web | web.auth.basicAuthUsers: false | web.auth.basicAuthUsers
- | web.ingress.enabled: true | web.enabled
- | config.listen: 127.0.0.1:9191 | config.listen
- | config.leaderElection.enabled: false | config.leaderElection.enabled
- | config.shards: 2 | config.shards
- | config.objects.enabled: true | config.objects.enabled
objects | config.objects: null | config.objects.enabled
- | replicaCount: two | /replicaCount
- | replicaCount: 0 | /replicaCount
- | podDisruptionBudget.maxUnavailable: x | /podDisruptionBudget/maxUnavailable
- | podDisruptionBudget.maxUnavailable: 150% | /podDisruptionBudget/maxUnavailable
- | podDisruptionBudget.maxUnavailable: -1 | /podDisruptionBudget/maxUnavailable
- | podDisruptionBudget.maxUnavailable: null | missing property 'maxUnavailable'
- | rbac.scaleTargets: null | missing property 'scaleTargets'
- | config.target: [] | config
- | config.syncPeriod: 15 | /config/syncPeriod
- | config.downscaleStabilization: 300 | /config/downscaleStabilization
- | existingConfigMap: a, config.targets: [] | config and existingConfigMap are both set
- | existingConfigMap: a, config.syncPeriod: 30s | config and existingConfigMap are both set
- | existingSecret: a, config.scaleDownBreaker: null | config and existingSecret are both set
- | config.listen: null | config.listen is null
- | config.leaderElection: null | config.leaderElection.enabled
- | config.prometheus: null | config.prometheus.url is missing
web | config.web: null | config.web.listen is null
web | config.web.listen: ':8443' | config.web.listen is :8443
- | podLabels: {a: 1} | /podLabels/a
""")


@pytest.mark.parametrize(("preset", "written", "named"), REFUSED)
def test_a_refusal_names_the_value(preset: str, written: str, named: str, helm: Helm) -> None:
    assert named in helm("template", "a", CHART, values=values_of(preset, written), code=1)


def test_an_unknown_key_is_refused_at_every_level(helm: Helm) -> None:
    levels = {path.rpartition(".")[0] for path in LEAVES}
    values = {f"{level}.unknown".lstrip("."): 1 for level in levels}
    errors = helm("template", "autoscaler", CHART, values=values, code=1)
    refused = re.findall(r"- at '(.*)': additional properties 'unknown' not allowed", errors)
    assert {path.lstrip("/").replace("/", ".") for path in refused} == levels


def alternatives(schema: Json, of_product: Json) -> list[Json]:
    """Return the schemas of which a value must satisfy one, each with a type or a constant."""
    if "$ref" in schema:
        schema = of_product["$defs"][schema["$ref"].rpartition("/")[2]]
    if schema.keys() & {"type", "const"}:
        return [schema]
    return [each for choice in schema["anyOf"] for each in alternatives(choice, of_product)]


def types_by_path(schema: Json, of_product: Json, path: str = "") -> dict[str, set[Any]]:
    """Return the accepted JSON types and constants of each key, at all levels."""
    found: dict[str, set[Any]] = {path: set()}
    for each in alternatives(schema, of_product):
        types = each["type"] if "type" in each else [each["const"]]
        found[path] |= {types} if isinstance(types, str) else set(types)
        for key, value in each.get("properties", {}).items():
            found |= types_by_path(value, of_product, f"{path}.{key}")
    return found


def test_the_schema_has_each_key_of_a_configuration_with_its_types() -> None:
    schema = json.loads((MANIFESTS.parent / "autoscaler.schema.json").read_text())
    config = SCHEMA["properties"]["config"]
    assert config["properties"].keys() == schema["properties"].keys()
    for key, value in config["properties"].items():
        of_chart = types_by_path(value, schema)
        of_product = types_by_path(schema["properties"][key], schema)
        assert {path: of_product[path] for path in of_chart} == of_chart, key


def test_the_file_of_the_default_configuration_equals_the_value() -> None:
    assert yaml.safe_load((CHART / "files" / "config.yaml").read_text()) == VALUES["config"]


@pytest.mark.parametrize("preset", ["objects", "namespaced"])
def test_only_a_cluster_wide_role_may_list_namespaces(preset: str, helm: Helm) -> None:
    objects = rendered(helm, PRESETS[preset] | {"objects.enabled": True})
    listed = {
        name for each in objects for rule in each.get("rules", ()) for name in rule["resources"]
    }
    assert "promqlautoscalers" in listed
    assert ("namespaces" in listed) == (preset == "objects")


def test_the_schema_describes_each_value() -> None:
    assert all(schema["description"] for _, _, schema in leaves(VALUES, SCHEMA))
    assert SCHEMA["properties"].keys() - VALUES.keys() == {"enabled", "global"}
    assert {path.partition(".")[0] for path in LEAVES if "." in path} <= {*SCHEMA["required"]}


def test_the_readme_lists_each_value_with_its_default() -> None:
    table = (CHART / "README.md").read_text().partition("## Values")[2]
    listed = dict(re.findall(r"^\| `(\S+)` \| `?(.*?)`? \| \w", table, re.MULTILINE))
    assert list(listed) == list(LEAVES)
    for path, value in LEAVES.items():
        if listed[path] != "see values.yaml":
            assert json.loads(listed[path] or '""') == value, path


@pytest.mark.parametrize("preset", PRESETS)
def test_the_daemon_loads_what_the_chart_writes(preset: str, helm: Helm, tmp_path: Path) -> None:
    text = look(rendered(helm, PRESETS[preset]), "ConfigMap config")
    of_loopback(tmp_path, "tls")
    (tmp_path / "users.yaml").write_text(f"alice: {HASHES[NEW]}")
    file = tmp_path / "autoscaler.yaml"
    file.write_text(text.replace("/etc/autoscaler-web", str(tmp_path)))
    assert load(file, lambda: "autoscaler").leader_election.enabled == (preset != "alone")


def notes(helm: Helm, values: Json) -> str:
    command = ("install", "autoscaler", CHART, "--dry-run=client")
    return helm(*command, values=values).partition("NOTES:")[2]


EXISTING: list[Json] = [{}, {"existingConfigMap": "mine"}, {"existingSecret": "mine"}]


@pytest.mark.parametrize("existing", EXISTING)
@pytest.mark.parametrize("preset", ["-", "web", "ingress", "namespaced"])
@pytest.mark.parametrize("objects", [False, True])
def test_the_notes_have_each_step_and_the_keys_of_an_existing_configuration(
    existing: Json, preset: str, objects: bool, helm: Helm
) -> None:
    values = PRESETS[preset] | {"objects.enabled": objects}
    text = notes(helm, values | existing)
    steps = re.findall(r"^(\d+)\. .*\n\n   \S", text, re.MULTILINE)
    assert steps == ["1", "2", "3", "4", "5", "6"][: 5 + objects]
    assert "-- autoscaler status" in text
    if existing:
        written = look(rendered(helm, values), "ConfigMap config")
        wanted = {
            key: each
            for key, each in yaml.safe_load(written).items()
            if key not in VALUES["config"]
        }
        if not values.get("web.enabled"):
            del wanted["web"]  # It may be another address.
        keys = text.partition("needs these keys:\n")[2].partition("\n\n1. ")[0]
        assert yaml.safe_load(keys.partition("\n\nThe pages")[0]) == wanted


# preset | values | whether the notes say it | a part of a sentence
SENTENCES = rows("""
- | - | yes | NOTE: the image has no registry.
- | image.repository: registry.example/autoscaler | no | no registry
- | - | no | Secret
- | existingConfigMap: mine | yes | your ConfigMap mine.
- | existingConfigMap: mine | no | Secret
- | existingSecret: mine | yes | your Secret mine.
- | existingSecret: mine, leaderElection.leaseName: x | yes | name: "x"
- | config.web: null | yes | port-forward deploy/autoscaler 9191:9191
objects | - | yes | config.targets ([] if all targets are objects)
web | - | yes | the Secret web with the keys tls.crt, tls.key, users.yaml.
web | web.auth.bearerToken: true, web.tlsSecret: x | yes |
    the Secret web with the keys users.yaml, token.
web | web.tlsSecret: x | yes | the Secret x with the keys tls.crt, tls.key.
web | - | yes | autoscaler status --state-directory /var/lib/autoscaler
""")


@pytest.mark.parametrize(("preset", "written", "said", "sentence"), SENTENCES)
def test_the_notes_say_what_the_values_need(
    preset: str, written: str, said: str, sentence: str, helm: Helm
) -> None:
    assert (sentence in notes(helm, values_of(preset, written))) == (said == "yes")


@pytest.mark.parametrize("preset", PRESETS)
def test_the_notes_show_commands_and_ports_that_exist(preset: str, helm: Helm) -> None:
    objects = rendered(helm, PRESETS[preset])
    text = notes(helm, PRESETS[preset])
    assert ("WARNING" in text) == ("config.targets" not in PRESETS[preset])
    commands = {command.name for command in app.registered_commands}
    assert set(re.findall(r"(?:-- |^ +)autoscaler (\w+)", text, re.MULTILINE)) <= commands
    assert set(re.findall(r"deploy/(\S+)", text)) == {look(objects, "Deployment metadata name")}
    (selected,) = re.findall(r"logs -l (\S+)=(\S+)", text)
    assert selected in look(objects, "Deployment spec template metadata labels").items()
    listen = look(objects, "ConfigMap config web listen").rpartition(":")[2]
    port = look(objects, "Service spec ports 0 port") or int(listen)
    forwarded = re.findall(r"port-forward \S+ \d+:(\d+)", text)
    assert forwarded == ([] if preset == "ingress" else [str(port)])


def test_the_chart_passes_the_linter_and_has_the_version(helm: Helm, tmp_path: Path) -> None:
    helm("lint", "--strict", CHART)
    helm("package", CHART, "--destination", tmp_path)
    assert (tmp_path / f"autoscaler-{__version__}.tgz").is_file()


@pytest.fixture
def release(
    control_plane: ControlPlane,
    namespace: str,
    helm: Helm,
    monitoring: None,  # noqa: ARG001 - the kinds of components
    kubelet: FakeKubelet,  # noqa: ARG001 - makes the pods ready
) -> Iterator[Helm]:
    """Give a function that runs a command of Helm on a release, which is removed at the end."""

    def run(command: str, *arguments: object, **options: Any) -> str:
        kubeconfig = str(control_plane.kubeconfig)
        where = ("autoscaler", *arguments, "--namespace", namespace)
        return helm(*command.split(), *where, KUBECONFIG=kubeconfig, **options)

    yield run
    run("uninstall --ignore-not-found --wait")


@pytest.mark.parametrize("preset", ["components", "namespaced"])
def test_an_installation_may_scale_its_targets_and_no_more(
    preset: str, release: Helm, namespace: str, control_plane: ControlPlane, admin_api: Api
) -> None:
    more = {"rbac.namespaces": [namespace]} if preset == "namespaced" else {}
    release("install --wait", CHART, values=PRESETS[preset] | more)
    deployments = workloads.collection("Deployment", namespace)
    admin_api.create(deployments, workloads.deployment("web"))
    leases = manifests.leases(namespace)
    with control_plane.api(token_of(admin_api, namespace)) as api:
        wanted = {"metadata": {"name": "web", "namespace": namespace}, "spec": {"replicas": 3}}
        assert api.replace(f"{deployments}/web/scale", wanted)["spec"]["replicas"] == 3
        lease = api.create(leases, {"metadata": {"name": "autoscaler"}})
        api.replace(f"{leases}/autoscaler", lease)
        assert api.healthy("/api/v1/pods") == (preset == "components")
        for path in (
            f"{deployments}/web",
            f"{leases}/other",
            f"/api/v1/namespaces/{namespace}/secrets",
        ):
            with pytest.raises(ApiError, match="forbidden"):
                api.get(path)


def test_a_release_is_upgraded_without_new_pods_and_removed_whole(
    release: Helm, namespace: str, admin_api: Api
) -> None:
    release("install --wait", CHART, values=COMPONENTS)
    paths = list(map(kustomize.path, yaml.safe_load_all(release("get manifest"))))
    assert all(map(admin_api.healthy, paths))
    deployment = f"{workloads.collection('Deployment', namespace)}/autoscaler"
    before = admin_api.get(deployment)["metadata"]["generation"]
    release("upgrade --wait", CHART, values=COMPONENTS | {"config.syncPeriod": "30s"})
    written = admin_api.get(f"/api/v1/namespaces/{namespace}/configmaps/autoscaler")["data"]
    assert "syncPeriod: 30s" in written["autoscaler.yaml"]
    assert admin_api.get(deployment)["metadata"]["generation"] == before
    release("uninstall --wait")
    assert not any(map(admin_api.healthy, paths))
