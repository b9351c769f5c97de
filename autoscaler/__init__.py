"""Scales Kubernetes workloads exactly as the HorizontalPodAutoscaler would, and says why."""

__version__ = "0.1.0"
