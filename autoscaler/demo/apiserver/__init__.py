"""A stand-in for a cluster: the part of the Kubernetes API that the demo uses, in this process."""

from autoscaler.demo.apiserver.server import StandInCluster
from autoscaler.demo.apiserver.store import deployment

__all__ = ["StandInCluster", "deployment"]
