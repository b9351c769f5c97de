"""The Kubernetes API: scales, pods, other autoscalers, Events and Leases.

`connect` returns an `Api`.  `Scales` and `Pods` read and write with it; `WatchedCluster` keeps
copies of what they would read, `UncachedCluster` writes nothing.
"""

from autoscaler.adapters.cluster.api import Api
from autoscaler.adapters.cluster.connection import (
    ClusterEndpoint,
    ConnectError,
    connect,
    find_api_server,
)
from autoscaler.adapters.cluster.failures import Failure
from autoscaler.adapters.cluster.leases import Lease, Leases
from autoscaler.adapters.cluster.pods import Pods
from autoscaler.adapters.cluster.scales import Scales
from autoscaler.adapters.cluster.watched_cluster import UncachedCluster, WatchedCluster

__all__ = [
    "Api",
    "ClusterEndpoint",
    "ConnectError",
    "Failure",
    "Lease",
    "Leases",
    "Pods",
    "Scales",
    "UncachedCluster",
    "WatchedCluster",
    "connect",
    "find_api_server",
]
