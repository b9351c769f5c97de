"""The CustomResourceDefinition of PromqlAutoscaler is what the models and rules say.

A real API server refuses the faults that `load` refuses, except those that only the daemon sees.
"""

import copy
import json
import runpy
import subprocess
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from autoscaler.config.checks import check_value, rules_of
from autoscaler.config.documents import path_of, read
from autoscaler.config.objects import (
    API_VERSION,
    KIND,
    MOST_ENTRIES,
    PLURAL,
    checked_spec,
    outsized,
)
from autoscaler.config.rule_forms import Context
from autoscaler.config.spec_model import ObjectSpecModel
from tests.config import test_extension_rules, test_metric_rules, test_target_rules
from tests.config.documents import extended
from tests.config.test_examples import EXAMPLES
from tests.service import kustomize, programs
from tests.worlds import objects
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.controlplane.server import ControlPlane
from tests.worlds.waiting import wait_until

GENERATOR = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "custom_resource.py"))
MOST_BYTES = 100_000
"""Far below the 262,144 bytes of an annotation, in which `kubectl apply` keeps the whole."""
NAMESPACE = "custom-resource"
OBJECTS = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/{PLURAL}"
ROWS = test_target_rules.ROWS + test_metric_rules.ROWS + test_extension_rules.ROWS
FINE = test_target_rules.FINE + test_metric_rules.FINE + test_extension_rules.FINE
T = test_target_rules.T
Place = tuple[str | int, ...]


def test_the_committed_definition_is_of_these_models() -> None:
    text = GENERATOR["custom_resource_definition"]()
    assert text == GENERATOR["FILE"].read_text(), "write it again: make objects"
    assert len(text.encode()) < MOST_BYTES


def test_each_rule_for_an_api_server_has_a_sentence_without_places() -> None:
    text = GENERATOR["custom_resource_definition"]().replace("status: {}", "")
    assert "{}" not in text


def test_each_rule_is_in_cel_except_those_of_the_configuration() -> None:
    """No rule loses its CEL by a new sentence."""
    rules = [
        (model, rule) for model in GENERATOR["_models"](ObjectSpecModel) for rule in rules_of(model)
    ]
    for owner, at, start in GENERATOR["CEL"]:
        assert any(
            issubclass(model, owner) and rule.at == at and rule.sentence.startswith(start)
            for model, rule in rules
        ), (owner, at, start)
    left = {
        rule.sentence for model, rule in rules if not GENERATOR["_cel_of"](model, rule).condition
    }
    assert {sentence[:21] for sentence in left} == {
        "compares inside of so",
        "unknown server in `pr",
        "is a resource without",
        "unknown key of `queri",
        # Where this cannot be: a target of one value, and sources with averageUtilization.
        "Utilization is for Re",
        "takes one of averageV",
        "takes one of value or",
    }


def test_the_daemon_refuses_what_the_structural_schema_refuses() -> None:
    """Each value of a large spec is replaced by values that are outside of its schema."""
    (spec,) = targets_of(extended(test_extension_rules.EVERY))
    (version,) = yaml.safe_load(GENERATOR["FILE"].read_text())["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert isinstance(checked_spec(spec, Context()), ObjectSpecModel)
    cases = [
        (place, wrong)
        for place, value, part in values_with_schemas(spec, schema, ())
        for wrong in (*WRONG_TYPES[part.get("type")], *out_of_bounds(value, part))
        if place and "x-kubernetes-preserve-unknown-fields" not in part
    ]
    assert len(cases) > 150
    for place, wrong in cases:
        changed = copy.deepcopy(spec)
        around: Any = changed
        for key in place[:-1]:
            around = around[key]
        around[place[-1]] = wrong
        refused = [*outsized(changed)] or checked_spec(changed, Context())
        assert isinstance(refused, list), (place, wrong)


WRONG_TYPES: Mapping[str | None, tuple[Any, ...]] = {
    **dict.fromkeys(("object", "array", "boolean"), ("x", 5)),
    "integer": (True, [], "x"),
    "string": (True, [], 5),
    # A quantity or a duration; or what may be anything.
    None: (True, []),
}


def values_with_schemas(
    value: Any, schema: Json, place: Place
) -> Iterator[tuple[Place, Any, Json]]:
    """Yield each value within a value, and its schema."""
    yield place, value, schema
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from values_with_schemas(item, schema["items"], (*place, index))
    if isinstance(value, dict) and "type" in schema:
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key) or schema["additionalProperties"]
            yield from values_with_schemas(item, inner, (*place, key))


def out_of_bounds(value: Any, schema: Json) -> Iterator[Any]:
    """Yield values of the right type that a schema refuses."""
    for gone in schema.get("required", ()):
        yield {key: value[key] for key in value if key != gone}
    beyond: Mapping[str, Callable[[int], Any]] = {
        "maxProperties": lambda most: dict.fromkeys(map(str, range(most + 1)), "x"),
        "maxItems": lambda most: value * (most + 1),
        "minItems": lambda _: [],
        "maxLength": lambda most: "x" * (most + 1),
        "minimum": lambda least: least - 1,
        "enum": lambda _: "other",
    }
    yield from (wrong(schema[key]) for key, wrong in beyond.items() if key in schema)


# -- on a real API server -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def api(admin_api: Api) -> Iterator[Api]:
    """Serve the kind: an API server that serves it has compiled its CEL within the budget."""
    objects.install(admin_api)
    admin_api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    yield admin_api
    admin_api.delete(f"/api/v1/namespaces/{NAMESPACE}")


class Refusal(NamedTuple):
    """A fault as the API server tells it."""

    path: str
    message: str


def scaling_object(spec: Any, name: str = "web") -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def refusals(api: Api, spec: Any) -> list[Refusal]:
    """Return the faults of a spec, as `kubectl apply` would report them."""
    path = f"{OBJECTS}?dryRun=All&fieldValidation=Strict"
    response = api.respond("POST", path, scaling_object(spec))
    if response.ok:
        assert response.json()["spec"] == spec
        return []
    answer = response.json()
    causes = answer.get("details", {}).get("causes", [{"message": answer["message"]}])
    return [Refusal(each.get("field", ""), each["message"]) for each in causes]


def as_object(target: Mapping[str, Any]) -> Any:
    """Return a target of a file as the spec of an object: queries are mappings, nothing is null."""
    spec = without_null({key: target[key] for key in target.keys() - {"namespace"}})
    metrics = [metric for metric in spec.get("metrics") or () if isinstance(metric, dict)]
    sources = [source for metric in metrics for source in metric.values()]
    around = [spec, *sources, *(each.get("metric") for each in sources if isinstance(each, dict))]
    for mapping in around:
        for key in ("query", "minReplicasQuery", "maxReplicasQuery", "holdScaleDownQuery"):
            if isinstance(mapping, dict) and isinstance(mapping.get(key), str):
                mapping[key] = {"query": mapping[key]}
    down = spec.get("scaleDown")
    if isinstance(down, dict) and isinstance(down.get("podDeletionCost"), str):
        down["podDeletionCost"] = {"query": down["podDeletionCost"]}
    return spec


def without_null(value: Any) -> Any:
    if isinstance(value, list):
        return [without_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: without_null(item) for key, item in value.items() if item is not None}


def targets_of(text: str) -> list[Any]:
    document: Any = json.loads(json.dumps(read(text, lambda *_: None), default=str))
    return [as_object(target) for target in document.get("targets") or ()]


OF_FILES = ("namespace", "undecided")
"""The keys that objects do not have."""
OF_YAML = (".nan", ".inf", "3.0")
"""Numbers that JSON does not have, or not as such."""
ONLY_THE_DAEMON = (
    # The forms of `paused` have no structural schema.
    "must be true, false, scaleDown, scaleUp or {replicas: N}",
    "is missing: the count",
    "must be at least 0",
    "did you mean `replicas`?",
    # Names that the configuration has.
    "unknown key of `queries`",
    "known are cpu, memory",
    # PromQL, times and time zones.
    "put the comparison last",
    "or count, as in",
    "its hour is",
    "must come every year",
    "is not a valid time zone",
    # Numbers within texts.
    "must be at least 1m",
    "must be at most 9223372036854775807m",
    "must be from -9223372036854775807m",
    "extended resource",
)
"""The faults that an API server may accept: begins of the fragments in the tables."""


def only_the_daemon(own: str, fragment: str) -> bool:
    listed = fragment.startswith(ONLY_THE_DAEMON)
    return listed and (own.startswith("paused") or not fragment.startswith(ONLY_THE_DAEMON[:4]))


@pytest.mark.parametrize(
    ("text", "own", "fragment"),
    [
        (text, path.removeprefix(T), fragment)
        for text, path, fragment in ROWS
        if path.startswith(T) and not path.removeprefix(T).startswith(OF_FILES)
        if not any(number in text for number in OF_YAML)
    ],
)
def test_each_fault_is_refused_by_the_api_server(
    api: Api, text: str, own: str, fragment: str
) -> None:
    """The path is the same, up to an index; the sentence is the same if a rule is broken."""
    (spec,) = targets_of(text)
    found = refusals(api, spec)
    if not found:
        assert only_the_daemon(own, fragment)
        return
    place = f"spec.{own}"
    places = (place, f"{place}.query")
    there = [
        each
        for each in found
        if each.path in places or place.startswith(f"{each.path}[") or f'"{place}"' in each.message
    ]
    assert there, found
    broken = check_value(spec, ObjectSpecModel, Context())
    for finding in islice((each for each in broken if path_of(each.location) == own), 1):
        sentence = finding.message.replace("metrics[0] says", "a metric says")
        assert any(sentence in each.message for each in there)


@pytest.mark.parametrize("text", [text for text in FINE if "undecided" not in text])
def test_a_valid_target_is_accepted(api: Api, text: str) -> None:
    for spec in targets_of(text.replace("value: 0.001", "value: '0.001'")):
        assert refusals(api, spec) == []
        assert isinstance(checked_spec(spec, Context()), ObjectSpecModel)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_targets_of_an_example_are_accepted_as_objects(api: Api, path: Path) -> None:
    for target in targets_of(path.read_text(encoding="utf-8")):
        spec = {key: target[key] for key in target if key not in {"cluster", "clusters"}}
        assert refusals(api, spec) == []
        assert isinstance(checked_spec(spec, Context()), ObjectSpecModel)


def test_a_large_object_stays_within_the_budget_of_cel(api: Api) -> None:
    (spec,) = targets_of(extended("minReplicas: 5"))
    (metric,) = spec["metrics"]
    condition = {"key": "queue", "operator": "In", "values": ["orders", "mails"]}
    selector = {"matchExpressions": [condition] * 5}
    metric["external"]["metric"]["selector"] = selector
    window = {"start": "0 8 * * 1-5", "end": "0 18 * * 1-5", "minReplicas": 2, "maxReplicas": 9}
    spec |= {
        "metrics": [metric] * MOST_ENTRIES,
        "schedules": [{"name": f"window-{n}", **window} for n in range(MOST_ENTRIES)],
        "queries": {f"query-{n}": {"query": "up"} for n in range(MOST_ENTRIES)},
        "idle": {"replicas": 1},
    }
    assert [*outsized(spec)] == []
    assert refusals(api, spec) == []
    spec["schedules"][-1]["name"] = "window-0"
    (refusal,) = refusals(api, spec)
    assert refusal.path == "spec.schedules"
    assert "two of them are called `window-0`" in refusal.message


# -- what no team may do to the API server or the daemon ------------------------------------------


def hostile() -> dict[str, Any]:
    """Return specs that are too large, too deep or too long, by name."""
    (spec,) = targets_of(extended(""))
    (metric,) = spec["metrics"]
    query = {"query": "x" * 100_000}
    long = {**metric["external"], "metric": {"name": "a", "query": query}}
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    return {
        "thousands of metrics": spec | {"metrics": [metric] * 5000},
        "a long query": spec | {"metrics": [{"type": "External", "external": long}]},
        "thousands of queries": spec | {"queries": {f"q{n}": {"query": "up"} for n in range(5000)}},
        "a long name": spec | {"server": "x" * 10_000},
        "an unknown key that is deep": spec | {"behavior": deep},
    }


@pytest.mark.parametrize("name", hostile())
def test_a_hostile_object_is_refused(api: Api, name: str) -> None:
    spec = hostile()[name]
    assert refusals(api, spec)
    assert [*outsized(spec)]


# -- rights and kubectl ---------------------------------------------------------------------------


@pytest.mark.usefixtures("built_programs")
def test_editors_write_objects_and_only_the_daemon_writes_the_status(
    api: Api, control_plane: ControlPlane, applied: list[Json], tmp_path: Path
) -> None:
    text = "components: [../kubernetes/components/objects]\n"
    roles = [found for found in kustomize.overlay(tmp_path, text) if "Role" in found["kind"]]
    applied.extend(kustomize.apply(api, found) for found in roles)
    for user, role in (("autoscaler", "edit"), ("viewer", "view")):
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {
            "metadata": {"name": role},
            "roleRef": subject | {"kind": "ClusterRole", "name": role},
            "subjects": [subject],
        }
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings"
        api.create(path, binding)
    (spec,) = targets_of(extended(""))

    def answer(user: str, method: str, path: str, body: Json | None = None) -> int:
        token = control_plane.token_for(user)
        return api.respond(method, path, body, token=token).status_code

    wait_until("the roles", lambda: answer("viewer", "GET", OBJECTS) == 200)
    wait_until(
        "an editor", lambda: answer("autoscaler", "POST", OBJECTS, scaling_object(spec, "a")) == 201
    )
    assert answer("viewer", "POST", OBJECTS, scaling_object(spec, "b")) == 403
    whole = api.get(f"{OBJECTS}/a")
    assert answer("autoscaler", "PUT", f"{OBJECTS}/a/status", whole) == 403
    assert answer("autoscaler", "DELETE", f"{OBJECTS}/a") == 200


@pytest.mark.usefixtures("built_programs")
def test_kubectl_applies_shows_describes_and_waits(
    api: Api, control_plane: ControlPlane, tmp_path: Path
) -> None:
    (spec,) = targets_of(extended(""))
    crd, manifest = GENERATOR["FILE"], tmp_path / "web.yaml"

    def kubectl(*arguments: object) -> str:
        """Run kubectl in the namespace, and return its output."""
        done = subprocess.run(
            [programs.locate("kubectl"), f"--namespace={NAMESPACE}", *map(str, arguments)],
            env={"KUBECONFIG": str(control_plane.kubeconfig), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    kubectl("apply", "-f", crd)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", crd)
    manifest.write_text(yaml.safe_dump(scaling_object(spec)))
    kubectl("apply", "-f", manifest)
    manifest.write_text(yaml.safe_dump(scaling_object({**spec, "maxReplicas": 12})))
    kubectl("apply", "--server-side", "--force-conflicts", "-f", manifest)
    ready = {"type": "Ready", "status": "True", "reason": "InForce", "message": "is in force"}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {
        "currentReplicas": 3,
        "metrics": "queue_length 61/30",
        "lastDecision": "2 -> 3: queue_length",
        "currentMetrics": [{"type": "External", "external": {"current": {"value": "61"}}}],
        "conditions": [ready],
    }
    api.patch(f"{OBJECTS}/web/status", {"status": status})
    heading, row = kubectl("get", "pqa").splitlines()
    columns = "NAME REFERENCE METRICS MIN MAX REPLICAS READY REASON AGE"
    assert heading.split() == columns.split()
    assert row.split()[:3] == ["web", "web", "queue_length"]
    assert row.split()[4:8] == ["12", "3", "True", "InForce"]
    kubectl("wait", "--for=condition=Ready", "pqa/web", "--timeout=10s")
    described = kubectl("describe", "pqa", "web")
    assert "2 -> 3: queue_length" in described
    assert "The most replicas." in kubectl("explain", "pqa.spec.maxReplicas")
