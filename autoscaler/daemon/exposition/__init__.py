"""Metrics, health and histories of the daemon, as pages of one HTTP listener."""

from autoscaler.daemon.exposition.instruments import Instruments
from autoscaler.daemon.exposition.metrics import Metrics
from autoscaler.daemon.exposition.site import Site

__all__ = [
    "Instruments",
    "Metrics",
    "Site",
]
