"""Prometheus computes the queries of the LLM examples from series as the servers have them."""

from pathlib import Path

import pytest

from autoscaler.config import load
from tests.worlds.prometheus.promtool import assert_computes

CONFIG = Path(__file__).parents[2] / "config"
BUCKETS = ("0.5", "1", "2.5", "5", "+Inf")
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
TTFT, TPOT = "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"
EPP = 'namespace="llm",model_name="Qwen/Qwen3-32B"'


def of_pod(metric: str, pod: int = 0, more: str = "") -> str:
    return f'{metric}{{namespace="llm",pod="qwen-{pod}",model_name="qwen"{more}}}'


def latencies(metric: str, *increases: float) -> dict[str, str]:
    """Return a histogram, with the cumulative observations a minute in each bucket."""
    return {
        of_pod(f"{metric}_bucket", more=f',le="{bound}"'): f"0+{increase}x10"
        for bound, increase in zip(BUCKETS, increases, strict=True)
    }


def requests(running: int, waiting: int) -> dict[str, str]:
    return {of_pod(RUNNING): f"{running}x10", of_pod(WAITING): f"{waiting}x10"}


GPUS = {
    'kube_node_status_allocatable{resource="nvidia_com_gpu",node="a"}': "8x10",
    'kube_node_status_allocatable{resource="nvidia_com_gpu",node="b"}': "8x10",
}
OTHERS = 'kube_pod_container_resource_requests{resource="nvidia_com_gpu",namespace="%s"}'
QUOTA = 'kube_resourcequota{namespace="llm",resource="requests.nvidia.com/gpu",type="%s"}'
RAY = '{namespace="llm",deployment="LLMServer",replica="r"}'
REPLICAS = 'kube_deployment_spec_replicas{namespace="llm",deployment="%s"}'
CASES: list[tuple[str, str, dict[str, str], float | None]] = [
    # 90 of 100 first tokens are within 2.5 s, of an objective of 3 s.
    ("latency", "ttft_to_objective", latencies(TTFT, 10, 50, 90, 100, 100), 2.5 / 3),
    ("latency", "ttft_to_objective", latencies(TTFT, 0, 0, 0, 0, 100), 5 / 3),
    ("latency", "tpot_to_objective", latencies(TPOT, 0, 100, 100, 100, 100), 2),
    ("latency", "ttft_to_objective", latencies(TTFT, 0, 0, 0, 0, 0) | requests(0, 0), 0),
    ("latency", "ttft_to_objective", latencies(TTFT, 0, 0, 0, 0, 0) | requests(0, 9), None),
    ("latency", "tpot_to_objective", latencies(TPOT, 0, 0, 0, 0, 0) | requests(2, 0), None),
    ("latency", "tpot_to_objective", requests(0, 0), 0),
    ("latency", "ttft_to_objective", {}, None),
    ("latency", "vllm_requests_waiting", requests(3, 9) | {of_pod(WAITING, 1): "2x10"}, 11),
    ("vllm", "vllm_requests", requests(3, 9), 12),
    ("vllm", "vllm_requests", {of_pod(RUNNING): "3x10"}, None),
    ("vllm", "podDeletionCost", requests(3, 9), 3),
    ("vllm", "vllm_kv_cache_usage", {of_pod("vllm:kv_cache_usage_perc"): "0.7x10"}, 0.7),
    ("vllm", "maxReplicasQuery", {QUOTA % "hard": "13x10", QUOTA % "used": "4x10"}, 6),
    (
        "endpoint-picker",
        "epp_queue_size",
        {f'llm_d_epp_flow_control_queue_size{{{EPP},priority="{rank}"}}': "3x10" for rank in "01"},
        6,
    ),
    ("endpoint-picker", "epp_prefill_seconds", {}, None),
    ("endpoint-picker", "maxReplicasQuery", GPUS, 8),
    (
        "endpoint-picker",
        "maxReplicasQuery",
        GPUS | {OTHERS % "other": "5x10", OTHERS % "llm": "9x10"},
        5,
    ),
    ("prefill-decode", "minReplicasQuery", {REPLICAS % "decode": "9x10"}, 3),
    ("prefill-decode", "maxReplicasQuery", {REPLICAS % "prefill": "3x10"}, 11),
    (
        "servers",
        "ray_serve_requests",
        {
            f"ray_serve_replica_processing_queries{RAY}": "4x9",
            f"ray_serve_deployment_queued_queries{RAY}": "5x9",
        },
        9,
    ),
]


def promql(example: str, query: str) -> str:
    """Return a query of an example: of a metric, or of a bound."""
    found: set[str] = set()
    for target in load(CONFIG / f"llm-{example}.yaml").targets:
        bounds = {
            "minReplicasQuery": target.min_replicas_query,
            "maxReplicasQuery": target.max_replicas_query,
            "podDeletionCost": target.deletion_cost,
        }
        names = [metric.name for metric in target.spec.metrics]
        by_name = dict(zip(names, target.queries, strict=True)) | bounds
        found |= {each.promql for name, each in by_name.items() if name == query and each}
    (only,) = found
    return only


@pytest.mark.parametrize(("example", "query", "series", "value"), CASES)
def test_prometheus_computes_a_query_of_an_example(
    example: str, query: str, series: dict[str, str], value: float | None, tmp_path: Path
) -> None:
    assert_computes(tmp_path, promql(example, query), series, value)
