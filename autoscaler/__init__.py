"""Scales Kubernetes workloads exactly as the HorizontalPodAutoscaler would, and explains why."""

__version__ = "0.1.0"
