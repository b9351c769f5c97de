"""A stand-in for a cluster: the part of the Kubernetes API that scales workloads, in-process."""

from autoscaler.demo.apiserver.cluster import StandInCluster, deployment
from autoscaler.demo.apiserver.status import ApiError

__all__ = ["ApiError", "StandInCluster", "deployment"]
