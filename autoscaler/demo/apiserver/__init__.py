"""A stand-in for a cluster: the part of the Kubernetes API that the demo uses, in this process."""

from autoscaler.demo.apiserver.cluster import StandInCluster
from autoscaler.demo.apiserver.objects import deployment

__all__ = ["StandInCluster", "deployment"]
