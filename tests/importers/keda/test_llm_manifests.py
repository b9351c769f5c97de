"""ScaledObjects as llm-d and KServe have them become targets that ask for the same counts."""

import textwrap
from pathlib import Path

import pytest

from autoscaler.migrate.fields import KeyOutcome
from tests.importers.keda.converting import Converted, converted, loaded
from tests.worlds.prometheus.promtool import assert_computes

URL = "http://prometheus:9090"
QUEUE = 'llm_d_epp_flow_control_queue_size{namespace="llm",model_name="qwen"}'
RUNNING = 'llm_d_epp_request_running{namespace="llm",model_name="qwen"}'
PENDING = 'kube_deployment_status_replicas_unavailable{namespace="llm",deployment="qwen"}'
REPLICAS = 'kube_deployment_status_replicas{namespace="llm",deployment="qwen"}'
READY = 'kube_deployment_status_replicas_ready{namespace="llm",deployment="qwen"}'
SATURATION = "llm_slo_saturation"

GUARDED = """\
let per_queue = 2;
let per_running = 16;
let demand = max(queue / per_queue, running / per_running);
demand <= replicas
? demand
: max(demand - (pending ?? 0), replicas)
"""
"""The demand without the pods that load, but not less than the pods that are there."""

BY_OBJECTIVE = """\
let credit = ready > 0 && ready < replicas ? ready / replicas : 1;
saturation > 0.55
? replicas + ceil(replicas * (saturation * (credit) / 0.55 - 1))
: saturation < 0.4
? replicas - floor(replicas * (1 - saturation / 0.4))
: replicas
"""
"""A law with two thresholds; pods that are not ready are discounted on the way up."""


def scaled_object(spec: str) -> str:
    head = (
        "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: qwen, namespace: llm}\n"
    )
    reference = "scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: qwen}\n"
    return f"{head}spec:\n{textwrap.indent(reference + textwrap.dedent(spec), '  ')}"


def trigger(name: str, query: str, threshold: str, more: str = "") -> str:
    metadata = f"serverAddress: {URL}, threshold: '{threshold}', query: '{query}'{more}"
    keys = f"type: prometheus, name: {name}, metricType: AverageValue, metadata: {{{metadata}}}"
    return f"- {{{keys}}}\n"


def composed(formula: str, *triggers: str, behavior: str = "static") -> Converted:
    modifiers = textwrap.indent(formula, " " * 6)
    return converted(
        scaled_object(
            "pollingInterval: 15\nminReplicaCount: 1\nmaxReplicaCount: 8\n"
            f"fallback: {{failureThreshold: 3, replicas: 1, behavior: {behavior}}}\n"
            "advanced:\n  horizontalPodAutoscalerConfig:\n    behavior:\n"
            "      scaleUp: {stabilizationWindowSeconds: 0}\n"
            "  scalingModifiers:\n    target: '1'\n    metricType: AverageValue\n"
            f"    formula: >-\n{modifiers}triggers:\n{''.join(triggers)}"
        )
    )


def promql(result: Converted, folder: Path) -> str:
    """Return the only query of a configuration that the daemon loads."""
    loaded(result, folder)
    assert result.reasons(KeyOutcome.REFUSED) == {}
    (metric,) = result.target["metrics"]
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": 1}
    (query,) = result.configuration["queries"].values()
    return str(query["query"] if isinstance(query, dict) else query)


def queue_guard(behavior: str = "static") -> Converted:
    return composed(
        GUARDED,
        trigger("queue", f"sum({QUEUE})", "2"),
        trigger("running", f"sum({RUNNING})", "16"),
        trigger("pending", f"max({PENDING})", "1", ", ignoreNullValues: 'false'"),
        trigger("replicas", f"max({REPLICAS})", "1"),
        behavior=behavior,
    )


@pytest.mark.parametrize(
    ("queue", "running", "pending", "replicas", "count"),
    [
        (0, 32, 0, 3, 2),
        (12, 48, 0, 3, 6),
        (12, 48, 3, 6, 6),
        (20, 48, 3, 6, 7),
        (16, 48, 3, 6, 6),
        (16, 48, None, 6, 8),
    ],
)
def test_the_guard_of_llm_d_asks_for_what_no_loading_pod_will_serve(
    queue: int, running: int, pending: int | None, replicas: int, count: int, tmp_path: Path
) -> None:
    given = {QUEUE: queue, RUNNING: running, PENDING: pending, REPLICAS: replicas}
    series = {name: f"{value}x9" for name, value in given.items() if value is not None}
    query = promql(queue_guard("scalingModifiers"), tmp_path)
    assert_computes(tmp_path, query, series, count)


def test_without_the_fallback_of_a_formula_a_missing_operand_is_missing_data(
    tmp_path: Path,
) -> None:
    series = {QUEUE: "16x9", RUNNING: "48x9", REPLICAS: "6x9"}
    assert_computes(tmp_path, promql(queue_guard(), tmp_path), series, None)


@pytest.mark.parametrize(
    ("saturation", "replicas", "ready", "count"),
    [
        (1.15, 3, 3, 7),
        (1.15, 7, 3, 7),
        (0.5, 5, 5, 5),
        (0.5, 5, 3, 5),
        (0.3, 8, 8, 6),
        (0.1, 8, 8, 2),
        (2.0, 4, 0, 15),
    ],
)
def test_the_law_of_an_objective_of_llm_d_is_computed_by_prometheus(
    saturation: float, replicas: int, ready: int, count: int, tmp_path: Path
) -> None:
    result = composed(
        BY_OBJECTIVE,
        trigger("saturation", f"max({SATURATION})", "1"),
        trigger("replicas", f"max({REPLICAS})", "1"),
        trigger("ready", f"max({READY})", "1"),
    )
    series = {
        SATURATION: f"{saturation}x9",
        REPLICAS: f"{replicas}x9",
        READY: f"{ready}x9",
    }
    assert_computes(tmp_path, promql(result, tmp_path), series, count)


def test_the_two_triggers_by_tokens_of_llm_d_become_two_metrics(tmp_path: Path) -> None:
    tokens = '(sum(llm_d_epp_inflight_tokens{namespace="llm"}) / 15928) or vector(0)'
    cache = 'sum(vllm:kv_cache_usage_perc{namespace="llm"}) or vector(0)'
    authentication = (
        "apiVersion: keda.sh/v1alpha1\nkind: TriggerAuthentication\n"
        "metadata: {name: prometheus-auth, namespace: llm}\n"
        "spec: {secretTargetRef: [{parameter: bearerToken, name: prometheus-token, key: token},"
        " {parameter: ca, name: prometheus-token, key: ca.crt}]}\n"
    )
    own = ", authModes: bearer, activationThreshold: '0', unsafeSsl: 'false'"
    pair = trigger("prefill", tokens, "1.5", own) + trigger("decode", cache, "0.8", own)
    pair = pair.replace(URL, "https://prometheus:9090")
    reference = "authenticationRef: {name: prometheus-auth}, metricType"
    result = converted(
        scaled_object(
            "minReplicaCount: 1\nmaxReplicaCount: 10\ntriggers:\n"
            + pair.replace("metricType", reference)
        ),
        authentication,
    )
    loaded(result, tmp_path)
    assert result.reasons(KeyOutcome.REFUSED) == {}
    targets = [metric["external"]["target"] for metric in result.target["metrics"]]
    assert [target["type"] for target in targets] == ["AverageValue", "AverageValue"]
    assert [str(target["averageValue"]) for target in targets] == ["1.5", "0.8"]
    assert result.configuration["prometheus"].keys() == {"url", "bearerTokenFile", "tls"}


def test_a_predictor_of_kserve_becomes_a_target_by_value(tmp_path: Path) -> None:
    value = trigger("running", "vllm:num_requests_running", "2").replace("AverageValue", "Value")
    spec = f"minReplicaCount: 1\nmaxReplicaCount: 5\ntriggers:\n{value}"
    result = converted(scaled_object(spec).replace("name: qwen}", "name: qwen-predictor}"))
    loaded(result, tmp_path)
    assert result.reasons(KeyOutcome.REFUSED) == {}
    assert result.target["scaleTargetRef"]["name"] == "qwen-predictor"
    (metric,) = result.target["metrics"]
    assert metric["external"]["target"] == {"type": "Value", "value": 2}
