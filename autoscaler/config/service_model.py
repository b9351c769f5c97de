"""How the daemon lives beside others, as a user writes it: which of several acts."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from autoscaler.config.fields import (
    POSITIVE_DURATION_SCHEMA,
    Between,
    DnsLabel,
    DnsSubdomain,
    LongerThanZero,
    Model,
    Text,
)

# The Lease object holds whole seconds, at least one.
LeaseDuration = Annotated[float, BeforeValidator(Between(1.0, 3600.0)), POSITIVE_DURATION_SCHEMA]


class LeaderElectionModel(Model):
    """Of several daemons with one Lease, the one that holds it writes; the others stand by."""

    enabled: bool | None = Field(
        default=None,
        description="Whether to write only while holding the Lease.",
        json_schema_extra={"default": False},
    )
    namespace: DnsLabel | None = Field(
        default=None, description="The namespace of the Lease. Default: that of the daemon's pod."
    )
    name: DnsSubdomain | None = Field(
        default=None,
        description="The name of the Lease.",
        json_schema_extra={"default": "autoscaler"},
    )
    identity: Text | None = Field(
        default=None,
        description="What the Lease calls this process, before a random part that tells it from "
        "others of the name. Default: the host's name.",
    )
    lease_duration: LeaseDuration | None = Field(
        default=None,
        description="How long the others wait after the last renewal that they saw, 1s to 1h.",
        json_schema_extra={"default": "15s"},
    )
    renew_deadline: LongerThanZero | None = Field(
        default=None,
        description="A leader that could not renew for so long stops writing; shorter than "
        "leaseDuration.",
        json_schema_extra={"default": "10s"},
    )
    retry_period: LongerThanZero | None = Field(
        default=None,
        description="The time from one try to the next; 1.2 times it is shorter than "
        "renewDeadline.",
        json_schema_extra={"default": "2s"},
    )
