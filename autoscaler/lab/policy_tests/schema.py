"""The form of a file of policy tests, and its JSON Schema."""

from typing import ClassVar

from autoscaler.cli.json_schemas import SchemaOf
from autoscaler.config.settings import MainFile, PrometheusServers
from autoscaler.lab.policy_tests.settings import PolicyTests


class PolicyTestsFile(PolicyTests, MainFile):
    """The policy tests of autoscaler, with the configuration that is tested, or its name."""

    prometheus: PrometheusServers | None = None  # type: ignore[assignment] # nobody is asked
    """Where the metrics come from; a test needs none."""

    has_rules: ClassVar[bool] = False
    """No rule between fields is in the schema: the configuration may be another file."""


TESTS = SchemaOf("autoscaler policy tests", PolicyTestsFile, "autoscaler-tests.schema.json")
