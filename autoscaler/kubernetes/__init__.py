"""The Kubernetes API: scales, pods, other autoscalers, Events and Leases.

`find_api_server(...).connect()` returns an `Api`. `Scales` and `list_pods` use it to read and
write; `WatchedCluster` caches objects, `UncachedCluster` writes nothing.
"""

from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.connection import ClusterEndpoint, ConnectError, find_api_server
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.leases import Lease, Leases
from autoscaler.kubernetes.pods import list_pods
from autoscaler.kubernetes.scales import Scales
from autoscaler.kubernetes.watched_cluster import UncachedCluster, WatchedCluster

__all__ = [
    "Api",
    "ClusterEndpoint",
    "ConnectError",
    "Failure",
    "Lease",
    "Leases",
    "Scales",
    "UncachedCluster",
    "WatchedCluster",
    "find_api_server",
    "list_pods",
]
