"""What of a ScaledObject is different here, ignored, or refused, and with which sentence."""

from pathlib import Path

import pytest

from autoscaler.migrate.fields import KeyOutcome
from tests.importers.keda.converting import HEAD, converted, loaded, prometheus, scaled_object
from tests.importers.test_horizontal_pod_autoscalers import autoscaler
from tests.tables import rows

ONE = "minReplicaCount: 1\n"
METADATA = "spec.triggers[0].metadata."


PLACEHOLDER = (
    "is a placeholder that nothing fills in here: import the manifest as your tool renders it, or "
    "write the value"
)


def spec_of(row: str) -> str:
    """Return a spec with a trigger of type prometheus, changed as a row of a table says."""
    what, _, rest = row.partition(" ")
    if what == "metadata:":
        return prometheus(f", {rest}")
    if what == "trigger:":
        return prometheus(beside=f", {rest}")
    if what == "query:":
        return prometheus(query=rest)
    old, arrow, new = row.partition(" ->")
    if arrow:
        return prometheus().replace(old, new.strip().replace("; ", "\n"))
    return row.replace("; ", "\n") + ("\n" if "triggers:" in row else f"\n{prometheus()}")


AS_A_WHOLE = """
idleReplicaCount: 0 | its idleReplicaCount 0 is not below its minReplicaCount 0
minReplicaCount: 5; maxReplicaCount: 3
    | its minReplicaCount is 5 and its maxReplicaCount 3
triggers: [] | it has no triggers
"""
WORKLOADS = """
 | its scaleTargetRef names no workload
scaleTargetRef: {kind: Deployment} | its scaleTargetRef names no workload
scaleTargetRef: {deploymentName: web} | has `deploymentName`, which KEDA 2 refuses
jobTargetRef: {template: {}} | it starts Jobs, which have no replicas to set
"""


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        *((scaled_object(spec_of(spec)), why) for spec, why in rows(AS_A_WHOLE)),
        *(
            (scaled_object(prometheus(), reference and f"{reference}\n"), why)
            for reference, why in rows(WORKLOADS)
        ),
    ],
)
def test_a_manifest_that_keda_refuses_is_refused_as_a_whole(manifest: str, why: str) -> None:
    result = converted(manifest)
    (refusal,) = result.refusals
    assert why in refusal
    assert result.configuration["targets"] == []


DECISIONS = """
"30" -> "0" | metadata.threshold | must be 0.001 or more
"30" -> "1k" | metadata.threshold | is not a number
"30" -> "nan" | metadata.threshold | is not a number
"30" -> "inf" | metadata.threshold | is not a number
"30" -> "1_0" | metadata.threshold | is not a number
triggers: [{type: cpu, metricType: Utilization, metadata: {type: Utilization, value: "60"}}]
    | metadata.type | together with the trigger's `metricType`
"30" -> "${BEARS}" | metadata.threshold | ${BEARS} PLACEHOLDER
, threshold: "30" ->  | metadata.threshold | is required: KEDA fails without it
http:// ->  | metadata.serverAddress | has no scheme
http:// -> http://admin:hunter2@ | metadata.serverAddress | has credentials in it
http://prometheus -> http://$HOST | metadata.serverAddress | $HOST PLACEHOLDER
query: sum(a{job="${JOB}"}) | metadata.query | ${JOB} PLACEHOLDER
query: sum(a | metadata.query | it ends too early
advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown:
    {stabilizationWindowSeconds: '${DOWN}'}}}}
    | spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds
    | ${DOWN} PLACEHOLDER
trigger: metricType: Utilization | spec.triggers[0].metricType | write AverageValue or Value
metadata: customHeaders: 'X-Api-Key=hunter2' | metadata.customHeaders
    | `headersFiles: {X-Api-Key: FILE}`
metadata: customHeaders: 'X-Scope-OrgID: hunter2' | metadata.customHeaders | NAME=VALUE,NAME=VALUE
metadata: authModes: bearer | metadata.authModes | add its TriggerAuthentication to the input
"30"} -> "30", authModes: bearer}, authenticationRef: {name: gone}
    | spec.triggers[0].authenticationRef | TriggerAuthentication gone is not in the input
trigger: fallback: {behavior: failover} | spec.triggers[0].fallback | write both queries as one
maxReplicaCount: lots | spec.maxReplicaCount | is not a whole number of 0 or more
fallback: {failureThreshold: 3, replicas: 1}; triggers: [{type: cpu, metricType: Utilization,
    metadata: {value: "60"}}] | spec.fallback | all triggers are of cpu or memory
fallback: {failureThreshold: 3, replicas: 1, behavior: {type: x}} | spec.fallback.behavior
    | must be one of static, currentReplicas, currentReplicasIfHigher, currentReplicasIfLower,
    scalingModifiers
triggers: [{type: cpu, metricType: Utilization, metadata: {value: "0.5"}}] | metadata.value
    | must be a whole number of percent, 1 or more
triggers: [{type: cpu, metricType: Value, metadata: {value: "5"}}] | spec.triggers[0]
    | must be Utilization or AverageValue
"30"} -> "30"}, name: a}; - {name: a, type: cpu, metricType: Utilization, metadata: {value: "60"}
    | spec.triggers[1].name | another trigger has this name
"""


@pytest.mark.parametrize(("spec", "place", "why"), rows(DECISIONS))
def test_an_open_decision_is_undecided_in_the_target(spec: str, place: str, why: str) -> None:
    place, why = place.replace("metadata.", METADATA), why.replace("PLACEHOLDER", PLACEHOLDER)
    result = converted(scaled_object(ONE + spec_of(spec)))
    (left,) = result.target["undecided"]
    assert left["field"] == place
    assert why in left["why"]
    ((path, sentence),) = result.reasons(KeyOutcome.REFUSED).items()
    assert path == place
    assert sentence in left["why"]
    assert "hunter2" not in result.text


DIFFERENCES = """
query: orders_waiting | metadata.query
    | KEDA fails when the query returns several elements; here they are added up
query: sum(a) / sum(b) | metadata.query
    | `nan: zero`
query: sum(a) / sum(b) | metadata.threshold
    | type Value
"30" -> 30 | metadata.threshold
    | metadata of a trigger is text, and the API server refuses anything else
idleReplicaCount: 0; pollingInterval: 60 | spec.pollingInterval
    | KEDA polls every 60 s
triggers: [{type: cpu, metadata: {type: Utilization, value: "60"}}] | metadata.type
    | since 2.18
trigger: useCachedMetrics: true | spec.triggers[0].useCachedMetrics
    | KEDA reads it once in each pollingInterval; here it is read at each sync
fallback: {failureThreshold: 3, replicas: 1, behavior: scalingModifiers} | spec.fallback.behavior
    | a trigger that fails is nil in KEDA's formula, and -1 without a formula
advanced: {restoreToOriginalReplicaCount: true} | spec.advanced.restoreToOriginalReplicaCount
    | set restoreToOriginalReplicaCount to false in the ScaledObject before you delete it
triggers: [{type: cpu, metadata: {value: "60"}}] | metadata.value
    | KEDA refuses it without a metricType; a number is read as a percentage, Utilization
fallback: {failureThreshold: 0, replicas: 1} | spec.fallback.failureThreshold
    | the fallback begins at the first failure in KEDA, and so it does here with 1
"""


@pytest.mark.parametrize(("spec", "place", "why"), rows(DIFFERENCES))
def test_a_difference_is_reported_and_imported(
    spec: str, place: str, why: str, tmp_path: Path
) -> None:
    result = converted(scaled_object(ONE + spec_of(spec)))
    assert why in result.reasons(KeyOutcome.DIFFERENT)[place.replace("metadata.", METADATA)]
    assert result.reasons(KeyOutcome.REFUSED) == {}
    loaded(result, tmp_path)


def test_keys_without_effect_are_ignored_with_the_reason() -> None:
    spec = ONE + "cooldownPeriod: 30\npollingInterval: 5\n"
    spec += prometheus(
        ", metricName: waiting, metricType: Value, activationThreshold: '5', colour: red",
        ", useCachedMetrics: false",
    )
    result = converted(scaled_object(spec))
    no_use = "it has no use where nothing goes to zero"
    ignored = result.reasons(KeyOutcome.IGNORED)
    assert {place: why for place, why in ignored.items() if place.startswith("spec")} == {
        "spec.cooldownPeriod": no_use,
        "spec.pollingInterval": (
            "KEDA's HPA syncs every 15 s regardless, and the target never goes idle"
        ),
        f"{METADATA}metricName": (
            "KEDA names its metrics itself since 2.12; it is only the query's name here"
        ),
        f"{METADATA}metricType": (
            "KEDA reads `metricType` next to `type` of the trigger; within `metadata` it has "
            "no effect"
        ),
        f"{METADATA}activationThreshold": no_use,
        f"{METADATA}colour": ("KEDA reads no such key of this trigger, so that it has no effect"),
    }
    assert list(result.configuration["queries"]) == ["waiting"]


@pytest.mark.parametrize(
    ("annotation", "paused"),
    [
        ('paused: "true"', True),
        ('paused: "false"', None),
        ("paused: soon", True),
        ('paused-replicas: "4"', {"replicas": 4}),
        ("paused-replicas: four", True),
        ('paused-scale-in: "true"', "scaleDown"),
        ('paused-scale-out: "true"', "scaleUp"),
        ("paused-scale-in: 'true', autoscaling.keda.sh/paused-scale-out: 'true'", True),
        ("paused-scale-in: 'false', autoscaling.keda.sh/paused: 'false'", None),
    ],
)
def test_annotations_of_keda_pause_the_target(
    annotation: str, paused: object, tmp_path: Path
) -> None:
    """A value that is not a boolean pauses, as in KEDA."""
    text = scaled_object(ONE + prometheus())
    head = HEAD.replace(
        "namespace: shop", f"namespace: shop, annotations: {{autoscaling.keda.sh/{annotation}}}"
    )
    result = converted(text.replace(HEAD, head))
    assert result.target.get("paused") == paused
    assert result.reasons(KeyOutcome.REFUSED) == {}
    loaded(result, tmp_path)


def test_force_activation_is_refused() -> None:
    annotation = "annotations: {autoscaling.keda.sh/force-activation: 'true'}"
    text = scaled_object(prometheus()).replace("namespace: shop", f"namespace: shop, {annotation}")
    (why,) = converted(text).reasons(KeyOutcome.REFUSED).values()
    assert why == "it keeps the target awake: use `schedules`, or a `minReplicas` without `idle`"


def test_each_server_is_written_once(tmp_path: Path) -> None:
    tenant = ", customHeaders: 'X-Scope-OrgID=shop', timeout: '5000', namespace: shop"
    unsafe = ", unsafeSsl: 'true', queryParameters: 'dedup=false,max=1'"
    documents = [
        scaled_object(ONE + prometheus(metadata)).replace("order-worker", f"worker-{number}")
        for number, metadata in enumerate(("", tenant, "", tenant, unsafe))
    ]
    result = converted(*(text.replace("http:", "https:") for text in documents))
    url = "https://prometheus:9090"
    assert result.configuration["prometheus"] == {
        "url": "http://prometheus:9090",
        "servers": {
            "prometheus": {"url": url},
            "prometheus-2": {
                "url": url,
                "timeout": "5s",
                "headers": {"X-Scope-OrgID": "shop"},
                "queryParameters": {"namespace": "shop"},
            },
            "prometheus-3": {
                "url": url,
                "tls": {"insecureSkipVerify": True},
                "queryParameters": {"dedup": "false", "max": "1"},
            },
        },
    }
    loaded(result, tmp_path)


KAFKA = """\
minReplicaCount: 0
triggers:
- type: kafka
  metadata: {bootstrapServers: k:9092, consumerGroup: workers, topic: orders, lagThreshold: "50"}
"""


def test_a_trigger_of_another_kind_is_undecided_with_a_proposed_query() -> None:
    result = converted(scaled_object(KAFKA + prometheus().partition("\n")[2]))
    names = [metric["external"]["metric"]["name"] for metric in result.target["metrics"]]
    assert names == ["orders-kafka", "orders"]
    (left,) = result.target["undecided"]
    assert left["type"] == "kafka"
    assert "kafka_consumergroup_lag{consumergroup=..., topic=...} of kafka_exporter" in left["why"]
    assert "the query orders-kafka replaces it: check it, then remove this entry" in left["why"]


AUTHENTICATION = """\
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: prom, namespace: shop}
spec:
  secretTargetRef:
  - {parameter: bearerToken, name: tokens, key: token}
  - {parameter: apiKey, name: tokens, key: api}
  hashiCorpVault:
    address: https://vault
    secrets: [{parameter: ca, path: p, key: k}]
"""


def test_each_parameter_of_an_authentication_is_accounted_for() -> None:
    trigger = prometheus(", authModes: bearer", ", authenticationRef: {name: prom}")
    result = converted(AUTHENTICATION, scaled_object(ONE + trigger))
    assert result.reasons(KeyOutcome.REFUSED) == {
        "spec.hashiCorpVault": (
            "`ca` comes from HashiCorp Vault: write it to a file, and name that instead"
        ),
        "spec.triggers[0].authenticationRef": (
            "`ca` comes from HashiCorp Vault: write it to the file secrets/ca, or name another file"
        ),
    }
    ignored = result.reasons(KeyOutcome.IGNORED)
    assert ignored["spec.secretTargetRef[1]"] == "no trigger that is carried over needs it"
    unused = converted(AUTHENTICATION, scaled_object(ONE + prometheus()))
    assert (
        unused.reasons(KeyOutcome.IGNORED)["spec.secretTargetRef"]
        == "no ScaledObject here names it"
    )
    assert unused.reasons(KeyOutcome.REFUSED) == {}
    lost = KAFKA + "  authenticationRef: {name: prom}\n"
    named = converted(AUTHENTICATION, scaled_object(lost))
    ignored = named.reasons(KeyOutcome.IGNORED)
    assert ignored["spec.secretTargetRef"] == "no trigger that is carried over needs it"


def test_an_unknown_key_is_refused() -> None:
    text = scaled_object(ONE + "minReplicas: 3\n" + prometheus())
    result = converted(text)
    (place,) = result.reasons(KeyOutcome.REFUSED)
    assert place == "spec.minReplicas"


KEDAS_HPA = autoscaler(
    "metrics:\n- type: External\n"
    "  external: {metric: {name: s0-prometheus}, target: {type: AverageValue, averageValue: 5}}"
).replace("name: web, namespace: shop", "name: keda-hpa-orders, namespace: shop, LABELLED")


@pytest.mark.parametrize(
    "marked",
    [
        "labels: {scaledobject.keda.sh/name: orders}",
        "ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: orders}]",
    ],
)
def test_the_hpa_of_keda_does_not_replace_its_scaled_object(marked: str) -> None:
    hpa, source = KEDAS_HPA.replace("LABELLED", marked), scaled_object(ONE + prometheus())
    for texts in ((hpa, source), (source, hpa)):
        result = converted(*texts)
        assert result.target["metrics"][0]["external"]["metric"]["name"] == "orders"
        assert result.refusals == []
        states = {
            manifest.manifest.kind: manifest.state.value for manifest in result.conversion.imported
        }
        assert states == {"ScaledObject": "imported", "HorizontalPodAutoscaler": "used"}
    elsewhere = source.replace("namespace: shop", "namespace: bank")
    for result in (converted(hpa), converted(hpa, elsewhere)):
        assert "import that in place of it" in result.refusals[0]
