"""The Kubernetes API: scales, pods, other autoscalers, Events and Leases.

`connect` returns an `Api`.  `Scales` and `Pods` read and write with it; `WatchedCluster` keeps
copies of what they would read, `UncachedCluster` writes nothing.
"""

from autoscaler.kubernetes.api import Api
from autoscaler.kubernetes.connection import ClusterEndpoint, ConnectError, connect, find_api_server
from autoscaler.kubernetes.failures import Failure
from autoscaler.kubernetes.leases import Lease, Leases
from autoscaler.kubernetes.pods import Pods
from autoscaler.kubernetes.scales import Scales
from autoscaler.kubernetes.watched_cluster import UncachedCluster, WatchedCluster

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
