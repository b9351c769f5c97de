"""For triggers that are not read from Prometheus, the metric that people take instead."""

import pytest
import yaml

from autoscaler.config.promql_parser import parse
from autoscaler.migrate.fields import Fields
from autoscaler.migrate.keda.exporters import Proposal, instead_of, proposal_for
from tests.tables import rows

PROPOSED = r"""
rabbitmq | queueName: orders, mode: QueueLength, value: 20, host: 'amqp://u:p@h'
    | sum(rabbitmq_queue_messages_ready{queue="orders"}) | 20
rabbitmq | queueName: o, vhostName: /, protocol: http, queueLength: 5
    | sum(rabbitmq_queue_messages{queue="o", vhost="/"}) | 5
rabbitmq | queueName: o, mode: MessageRate, value: 0.5
    | sum(rate(rabbitmq_queue_messages_published_total{queue="o"}[2m])) | 0.5
kafka | consumerGroup: g, topic: o"x, lagThreshold: 50
    | sum(kafka_consumergroup_lag{consumergroup="g", topic="o\"x"}) | 50
apache-kafka | consumerGroup: g | sum(kafka_consumergroup_lag{consumergroup="g"}) | 10
redis | listName: jobs, listLength: 7, databaseIndex: 2 | sum(redis_key_size{key="jobs"}) | 7
redis-streams | stream: s, consumerGroup: g, pendingEntriesCount: 9
    | sum(redis_stream_group_messages_pending{stream="s", group="g"}) | 9
aws-sqs-queue | queueURL: 'https://sqs.eu-west-1.amazonaws.com/1/orders', queueLength: 5
    | sum(SQS_visible_average{dimension_QueueName="orders"}) +
    sum(SQS_not_visible_average{dimension_QueueName="orders"}) | 5
aws-sqs-queue | queueURL: orders, scaleOnInFlight: false
    | sum(SQS_visible_average{dimension_QueueName="orders"}) | 5
gcp-pubsub | subscriptionName: 'projects/${PROJECT}/subscriptions/orders', value: 3
    | sum(PUBSUB_num_undelivered_messages{subscription_id="orders"}) | 3
gcp-pubsub | subscriptionName: o, mode: OldestUnackedMessageAge, value: 60
    | max(PUBSUB_oldest_unacked_message_age{subscription_id="o"}) | 60
"""
NAMES = {
    "SQS": "aws_sqs_approximate_number_of_messages",
    "PUBSUB": "pubsub_googleapis_com:subscription",
}


def metadata_of(text: str) -> Fields:
    """Return the metadata of a trigger, whose values are texts."""
    return Fields(yaml.load(f"{{{text}}}", yaml.BaseLoader))  # noqa: S506 - it makes texts alone


MISSING = """
rabbitmq | mode: QueueLength, value: 20
rabbitmq | queueName: ^a, useRegex: true, value: 2, mode: QueueLength
rabbitmq | queueName: a, mode: ExpectedQueueConsumptionTime, value: 2
kafka | topic: orders
kafka | consumerGroup: '${GROUP}'
kafka | consumerGroup: g, lagThreshold: '${LAG}'
redis | listNameFromEnv: LIST
redis-streams | stream: s, consumerGroup: g
aws-sqs-queue | queueURL: '${QUEUE_URL}'
gcp-pubsub | topicName: orders
postgresql | query: SELECT 1
no-such-trigger | a: b
"""


@pytest.mark.parametrize(
    ("kind", "metadata", "query", "value"),
    [*rows(PROPOSED), *((*row, "", "0") for row in rows(MISSING))],
)
def test_only_a_complete_trigger_has_a_proposed_query(
    kind: str, metadata: str, query: str, value: str
) -> None:
    for name, whole in NAMES.items():
        query = query.replace(name, whole)
    proposal = proposal_for(kind, metadata_of(metadata))
    assert proposal == (Proposal(query, float(value)) if query else None)
    if query:
        parse(query)


def test_a_proposal_has_the_activation_of_the_trigger() -> None:
    proposal = proposal_for("kafka", metadata_of("consumerGroup: g, activationLagThreshold: 3"))
    assert proposal is not None
    assert proposal.activation == 3


def test_a_kind_that_nobody_knows_has_the_general_sentence() -> None:
    assert instead_of("rabbitmq").startswith("people usually take rabbitmq_queue_messages_ready")
    assert instead_of("no-such-trigger") == (
        "if Prometheus has its metric, write a query and a metric of type External on it"
    )
