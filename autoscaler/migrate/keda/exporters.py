"""Triggers of KEDA without Prometheus: the usual metric for each.

If a trigger has all needed values, there is also a query, which must be confirmed: the trigger does
not show which exporter exists, and what its labels are called. https://keda.sh/docs/latest/scalers/
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from autoscaler.config.promql_parser import quoted
from autoscaler.migrate.fields import Fields, placeholder
from autoscaler.migrate.keda.metadata import is_false, is_true, parsed

_RANGE = "2m"


class Proposal(NamedTuple):
    """A query in place of a trigger, and its target."""

    query: str
    value: int | float
    activation: int | float = 0


def instead_of(kind: str) -> str:
    """Return the metric in Prometheus that replaces a trigger of this type."""
    instead = _INSTEAD.get(kind)
    if instead is None:
        return "if Prometheus has its metric, write a query and a metric of type External on it"
    return f"people usually take {instead}"


def proposal_for(kind: str, metadata: Fields) -> Proposal | None:
    """Return a query in place of a trigger; None if it lacks values."""
    propose = _PROPOSALS.get(kind)
    return None if propose is None else propose(metadata)


def _made(
    metadata: Fields,
    query: str,
    labels: Mapping[str, str],
    value: tuple[str, int | None],
    activation: str,
) -> Proposal | None:
    """Return a query with a selector in place of {}; None without the first label or a value.

    ``labels`` are the metric's, with the keys of metadata that have their values.
    """
    named = {label: _word(metadata, key) for label, key in labels.items()}
    number = _number(metadata, *value)
    if next(iter(named.values())) is None or number is None:
        return None
    matchers = (f"{name}={quoted(word)}" for name, word in named.items() if word is not None)
    selector = f"{{{', '.join(matchers)}}}"
    return Proposal(query.replace("{}", selector), number, _number(metadata, activation, 0) or 0)


def _rabbitmq(metadata: Fields) -> Proposal | None:
    mode = metadata.peek("mode")
    # Over AMQP, which is the default, KEDA sees only the messages that wait.
    all_of_them = metadata.peek("protocol") == "http" and not is_true(
        metadata.peek("excludeUnacknowledged")
    )
    queries = {
        "QueueLength": f"sum(rabbitmq_queue_messages{'' if all_of_them else '_ready'}{{}})",
        "MessageRate": f"sum(rate(rabbitmq_queue_messages_published_total{{}}[{_RANGE}]))",
    }
    query = queries.get(str(mode or "QueueLength"))
    if query is None or is_true(metadata.peek("useRegex")):
        return None
    is_old = mode is None and metadata.peek("value") is None
    value = ("queueLength", 20) if is_old else ("value", None)
    labels = {"queue": "queueName", "vhost": "vhostName"}
    return _made(metadata, query, labels, value, "activationValue")


def _kafka(metadata: Fields) -> Proposal | None:
    labels = {"consumergroup": "consumerGroup", "topic": "topic"}
    value, activation = ("lagThreshold", 10), "activationLagThreshold"
    return _made(metadata, "sum(kafka_consumergroup_lag{})", labels, value, activation)


def _redis(metadata: Fields) -> Proposal | None:
    labels, value = {"key": "listName"}, ("listLength", 5)
    return _made(metadata, "sum(redis_key_size{})", labels, value, "activationListLength")


def _redis_streams(metadata: Fields) -> Proposal | None:
    metric = "sum(redis_stream_group_messages_pending{})"
    if _word(metadata, "consumerGroup") is None:
        return None
    labels, value = {"stream": "stream", "group": "consumerGroup"}, ("pendingEntriesCount", None)
    return _made(metadata, metric, labels, value, "activationLagCount")


def _sqs(metadata: Fields) -> Proposal | None:
    states = ["visible"]
    if not is_false(metadata.peek("scaleOnInFlight")):
        states.append("not_visible")
    if is_true(metadata.peek("scaleOnDelayed")):
        states.append("delayed")
    query = " + ".join(
        f"sum(aws_sqs_approximate_number_of_messages_{state}_average{{}})" for state in states
    )
    labels, value = {"dimension_QueueName": "queueURL"}, ("queueLength", 5)
    return _made(metadata, query, labels, value, "activationQueueLength")


def _pubsub(metadata: Fields) -> Proposal | None:
    mode = metadata.peek("mode")
    form = _OF_PUBSUB.get(str(mode or "SubscriptionSize"))
    if form is None:
        return None
    is_old = mode is None and metadata.peek("value") is None
    value = ("subscriptionSize", 10) if is_old else ("value", None)
    labels = {"subscription_id": "subscriptionName"}
    return _made(metadata, form, labels, value, "activationValue")


_ADDRESSES = ("queueURL", "subscriptionName")
_PUBSUB = "pubsub_googleapis_com:subscription"
_OF_PUBSUB = {
    "SubscriptionSize": f"sum({_PUBSUB}_num_undelivered_messages{{}})",
    "NumUndeliveredMessages": f"sum({_PUBSUB}_num_undelivered_messages{{}})",
    "OldestUnackedMessageAge": f"max({_PUBSUB}_oldest_unacked_message_age{{}})",
}


def _word(metadata: Fields, key: str) -> str | None:
    """Return a text that names something, for an address its end; None for a placeholder."""
    value = metadata.peek(key)
    if not isinstance(value, str):
        return None
    name = value.strip().rstrip("/")
    name = name.rpartition("/")[2] if key in _ADDRESSES else name or value.strip()
    return None if not name or placeholder(name) else name


def _number(metadata: Fields, key: str, default: int | None) -> int | float | None:
    """Return a number; None if the value is not a number."""
    value = metadata.peek(key)
    if value is None or value == "":
        return default
    return parsed(str(value))


_KAFKA = ("kafka", "apache-kafka")
_REDIS = ("redis", "redis-cluster", "redis-sentinel")
_REDIS_STREAMS = ("redis-streams", "redis-cluster-streams", "redis-sentinel-streams")
_PROPOSALS: Mapping[str, Callable[[Fields], Proposal | None]] = {
    "rabbitmq": _rabbitmq,
    **dict.fromkeys(_KAFKA, _kafka),
    **dict.fromkeys(_REDIS, _redis),
    **dict.fromkeys(_REDIS_STREAMS, _redis_streams),
    "aws-sqs-queue": _sqs,
    "gcp-pubsub": _pubsub,
}
_AZURE = "azure_metrics_exporter's metrics of Azure Monitor"
_INSTEAD = {
    "rabbitmq": "rabbitmq_queue_messages_ready{queue=...} of RabbitMQ's plugin rabbitmq_prometheus,"
    " at /metrics/per-object",
    **dict.fromkeys(
        _KAFKA,
        "kafka_consumergroup_lag{consumergroup=..., topic=...} of kafka_exporter; KEDA also stops "
        "at the number of partitions: let maxReplicas be no more",
    ),
    **dict.fromkeys(
        _REDIS,
        "redis_key_size{key=...} of redis_exporter, with the list in --check-single-keys",
    ),
    **dict.fromkeys(
        _REDIS_STREAMS,
        "redis_stream_group_messages_pending{stream=..., group=...} of redis_exporter, which is "
        "told the stream by --check-streams",
    ),
    "aws-sqs-queue": "aws_sqs_approximate_number_of_messages_visible_average"
    "{dimension_QueueName=...} of YACE (yet-another-cloudwatch-exporter)",
    "gcp-pubsub": "pubsub_googleapis_com:subscription_num_undelivered_messages"
    "{subscription_id=...} of Google's managed Prometheus, or from stackdriver_exporter",
    "aws-cloudwatch": "the metric of YACE (yet-another-cloudwatch-exporter)",
    "gcp-stackdriver": "the same metric of Google's managed Prometheus, or of stackdriver_exporter",
    **dict.fromkeys(("azure-servicebus", "azure-queue"), f"the message count in {_AZURE}"),
    "azure-monitor": f"the same metric in {_AZURE}",
    "azure-eventhub": f"the incoming and outgoing messages in {_AZURE}",
    "postgresql": "a query of its own of postgres_exporter or sql_exporter",
    **dict.fromkeys(("mysql", "mssql"), "a query of its own of sql_exporter"),
    "mongodb": "a count that the application exports, or mongodb_exporter",
    "nats-jetstream": "nats_consumer_num_pending of prometheus-nats-exporter",
    "artemis-queue": "artemis_message_count{queue=...} of ActiveMQ Artemis' plugin",
    "activemq": "the queue size of ActiveMQ by jmx_exporter",
    "metrics-api": "the same value by json_exporter, which reads it from the same address",
    "datadog": "the metric that feeds Datadog, scraped from its source",
    "new-relic": "the metric that feeds New Relic, scraped from its source",
    "graphite": "the same metric by graphite_exporter",
    "influxdb": "the same metric by influxdb_exporter",
    "selenium-grid": "the length of the session queue by a Selenium Grid exporter",
    "kubernetes-workload": "kube_pod_labels and kube_pod_status_phase of kube-state-metrics,"
    " counted",
    **dict.fromkeys(
        ("external", "external-push"), "a metric that the external scaler's source exports"
    ),
}
"""The metric by the type of a trigger, for a sentence."""
