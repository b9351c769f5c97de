"""The Kubernetes API: scales, the kinds that have one, and pods.

`connect` gives an `Api`; `Scales` and `Pods` fit the ports over it, `WatchedCluster` keeps what
they would read at hand.
"""

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.connection import (
    ApiServer,
    ConnectError,
    connect,
    find_api_server,
)
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.leases import Lease, Leases
from autoscaler.adapters.cluster.pods import Pods
from autoscaler.adapters.cluster.scales import Scales
from autoscaler.adapters.cluster.watched import WatchedCluster

__all__ = [
    "Api",
    "ApiServer",
    "ConnectError",
    "Failure",
    "Lease",
    "Leases",
    "Pods",
    "Scales",
    "WatchedCluster",
    "connect",
    "find_api_server",
]
