"""Triggers of KEDA that read from elsewhere than Prometheus: the metric that people take instead.

Where a trigger says all that is needed there is a query as well, to be confirmed: which exporter is
there, and what its labels are called, is not in the trigger.
https://keda.sh/docs/latest/scalers/
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from autoscaler.migrate.fields import Fields, placeholder
from autoscaler.migrate.keda.metadata import is_false, is_true, parsed

_RANGE = "2m"


class Proposal(NamedTuple):
    """A query in place of a trigger, and its target."""

    query: str
    value: int | float
    activation: int | float = 0


class _Substitute(NamedTuple):
    instead: str
    """The metric, for a sentence."""
    propose: Callable[[Fields], Proposal | None] | None = None


def instead_of(kind: str) -> str:
    """Say which metric in Prometheus stands for a trigger of this type."""
    exporter = _SUBSTITUTES.get(kind)
    if exporter is None:
        return "if Prometheus has its metric, write a query and a metric of type External on it"
    return f"people usually take {exporter.instead}"


def proposal_for(kind: str, metadata: Fields) -> Proposal | None:
    """Return a query in place of a trigger; None where it does not say all that is needed."""
    exporter = _SUBSTITUTES.get(kind)
    return exporter.propose(metadata) if exporter is not None and exporter.propose else None


def _rabbitmq(metadata: Fields) -> Proposal | None:
    queue, mode = _word(metadata, "queueName"), metadata.peek("mode")
    value = _number(metadata, "value", None)
    if mode is None:
        mode, value = "QueueLength", value or _number(metadata, "queueLength", 20)
    if queue is None or value is None or is_true(metadata.peek("useRegex")):
        return None
    labels = {"queue": queue, "vhost": _word(metadata, "vhostName")}
    activation = _number(metadata, "activationValue", 0) or 0
    if mode == "QueueLength":
        # Over AMQP, which is the default, KEDA sees only the messages that wait.
        all_of_them = metadata.peek("protocol") == "http" and not is_true(
            metadata.peek("excludeUnacknowledged")
        )
        metric = "rabbitmq_queue_messages" if all_of_them else "rabbitmq_queue_messages_ready"
        return Proposal(_sum(metric, labels), value, activation)
    if mode == "MessageRate":
        selector = _selector("rabbitmq_queue_messages_published_total", labels)
        return Proposal(f"sum(rate({selector}[{_RANGE}]))", value, activation)
    return None


def _kafka(metadata: Fields) -> Proposal | None:
    group, value = _word(metadata, "consumerGroup"), _number(metadata, "lagThreshold", 10)
    if group is None or value is None:
        return None
    labels = {"consumergroup": group, "topic": _word(metadata, "topic")}
    activation = _number(metadata, "activationLagThreshold", 0) or 0
    return Proposal(_sum("kafka_consumergroup_lag", labels), value, activation)


def _redis(metadata: Fields) -> Proposal | None:
    key, value = _word(metadata, "listName"), _number(metadata, "listLength", 5)
    if key is None or value is None:
        return None
    labels = {"key": key}
    database = metadata.peek("databaseIndex")
    if isinstance(database, str) and database.isdecimal():
        labels["db"] = f"db{database}"
    activation = _number(metadata, "activationListLength", 0) or 0
    return Proposal(_sum("redis_key_size", labels), value, activation)


def _redis_streams(metadata: Fields) -> Proposal | None:
    stream, group = _word(metadata, "stream"), _word(metadata, "consumerGroup")
    if stream is None:
        return None
    labels = {"stream": stream, "group": group}
    for key, metric, activation in (
        ("pendingEntriesCount", "redis_stream_group_messages_pending", ""),
        ("lagCount", "redis_stream_group_lag", "activationLagCount"),
        ("streamLength", "redis_stream_length", ""),
    ):
        value = _number(metadata, key, None)
        if value is not None and (group is not None or key == "streamLength"):
            of_stream: Mapping[str, str | None] = {"stream": stream}
            of = of_stream if key == "streamLength" else labels
            return Proposal(_sum(metric, of), value, _number(metadata, activation, 0) or 0)
    return None


def _sqs(metadata: Fields) -> Proposal | None:
    queue, value = _word(metadata, "queueURL"), _number(metadata, "queueLength", 5)
    if queue is None or value is None:
        return None
    labels = {"dimension_QueueName": queue}
    states = ["visible"]
    if not is_false(metadata.peek("scaleOnInFlight")):
        states.append("not_visible")
    if is_true(metadata.peek("scaleOnDelayed")):
        states.append("delayed")
    metric = "aws_sqs_approximate_number_of_messages_{}_average"
    query = " + ".join(_sum(metric.format(state), labels) for state in states)
    return Proposal(query, value, _number(metadata, "activationQueueLength", 0) or 0)


def _pubsub(metadata: Fields) -> Proposal | None:
    subscription = _word(metadata, "subscriptionName")
    mode, value = metadata.peek("mode"), _number(metadata, "value", None)
    if mode is None:
        mode = "SubscriptionSize"
        value = _number(metadata, "subscriptionSize", 10) if value is None else value
    if subscription is None or value is None or str(mode) not in _OF_PUBSUB:
        return None
    labels = {"subscription_id": subscription}
    aggregation, metric = _OF_PUBSUB[str(mode)]
    query = f"{aggregation}({_selector(f'{_PUBSUB}_{metric}', labels)})"
    return Proposal(query, value, _number(metadata, "activationValue", 0) or 0)


_ADDRESSES = ("queueURL", "subscriptionName")
_PUBSUB = "pubsub_googleapis_com:subscription"
_OF_PUBSUB = {
    "SubscriptionSize": ("sum", "num_undelivered_messages"),
    "NumUndeliveredMessages": ("sum", "num_undelivered_messages"),
    "OldestUnackedMessageAge": ("max", "oldest_unacked_message_age"),
}


def _word(metadata: Fields, key: str) -> str | None:
    """Return a text that names something, of an address its end; None if it is not filled in."""
    value = metadata.peek(key)
    if not isinstance(value, str):
        return None
    name = value.strip().rstrip("/")
    name = name.rpartition("/")[2] if key in _ADDRESSES else name or value.strip()
    return None if not name or placeholder(name) else name


def _number(metadata: Fields, key: str, default: int | None) -> int | float | None:
    """Return a number; None where what is there is none."""
    value = metadata.peek(key)
    if value is None or value == "":
        return default
    return parsed(str(value))


def _sum(metric: str, labels: Mapping[str, str | None]) -> str:
    return f"sum({_selector(metric, labels)})"


def _selector(metric: str, labels: Mapping[str, str | None]) -> str:
    quoted = (
        (name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in labels.items()
        if value is not None
    )
    matchers = ", ".join(f'{name}="{value}"' for name, value in quoted)
    return f"{metric}{{{matchers}}}"


_REDIS = _Substitute(
    "redis_key_size{key=...} of redis_exporter, which is told the list by --check-single-keys",
    _redis,
)
_REDIS_STREAMS = _Substitute(
    "redis_stream_group_messages_pending{stream=..., group=...} of redis_exporter, which is told "
    "the stream by --check-streams",
    _redis_streams,
)
_KAFKA = _Substitute(
    "kafka_consumergroup_lag{consumergroup=..., topic=...} of kafka_exporter; KEDA also stops at "
    "the number of partitions: let maxReplicas be no more",
    _kafka,
)
_AZURE = "azure_metrics_exporter's metrics of Azure Monitor"
_AZURE_QUEUE = _Substitute(f"the message count in {_AZURE}")

_SUBSTITUTES = {
    "rabbitmq": _Substitute(
        "rabbitmq_queue_messages_ready{queue=...} of RabbitMQ's plugin rabbitmq_prometheus, at "
        "/metrics/per-object",
        _rabbitmq,
    ),
    "kafka": _KAFKA,
    "apache-kafka": _KAFKA,
    **dict.fromkeys(("redis", "redis-cluster", "redis-sentinel"), _REDIS),
    **dict.fromkeys(
        ("redis-streams", "redis-cluster-streams", "redis-sentinel-streams"), _REDIS_STREAMS
    ),
    "aws-sqs-queue": _Substitute(
        "aws_sqs_approximate_number_of_messages_visible_average{dimension_QueueName=...} of YACE "
        "(yet-another-cloudwatch-exporter)",
        _sqs,
    ),
    "gcp-pubsub": _Substitute(
        "pubsub_googleapis_com:subscription_num_undelivered_messages{subscription_id=...} of "
        "Google's managed Prometheus, or that of stackdriver_exporter",
        _pubsub,
    ),
    "aws-cloudwatch": _Substitute("the metric of YACE (yet-another-cloudwatch-exporter)"),
    "gcp-stackdriver": _Substitute(
        "the same metric of Google's managed Prometheus, or of stackdriver_exporter"
    ),
    "azure-servicebus": _AZURE_QUEUE,
    "azure-queue": _AZURE_QUEUE,
    "azure-monitor": _Substitute(f"the same metric in {_AZURE}"),
    "azure-eventhub": _Substitute(f"the incoming and outgoing messages in {_AZURE}"),
    "postgresql": _Substitute("a query of its own of postgres_exporter or sql_exporter"),
    "mysql": _Substitute("a query of its own of sql_exporter"),
    "mssql": _Substitute("a query of its own of sql_exporter"),
    "mongodb": _Substitute("a count that the application exports, or mongodb_exporter"),
    "nats-jetstream": _Substitute("nats_consumer_num_pending of prometheus-nats-exporter"),
    "artemis-queue": _Substitute("artemis_message_count{queue=...} of ActiveMQ Artemis' plugin"),
    "activemq": _Substitute("the queue size of ActiveMQ by jmx_exporter"),
    "metrics-api": _Substitute(
        "the same value by json_exporter, which reads it from the same address"
    ),
    "datadog": _Substitute("the metric that feeds Datadog, scraped from its source"),
    "new-relic": _Substitute("the metric that feeds New Relic, scraped from its source"),
    "graphite": _Substitute("the same metric by graphite_exporter"),
    "influxdb": _Substitute("the same metric by influxdb_exporter"),
    "selenium-grid": _Substitute("the length of the session queue by a Selenium Grid exporter"),
    "kubernetes-workload": _Substitute(
        "kube_pod_labels and kube_pod_status_phase of kube-state-metrics, counted"
    ),
    "external": _Substitute("a metric that the external scaler's source exports"),
    "external-push": _Substitute("a metric that the external scaler's source exports"),
}
