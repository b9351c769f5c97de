"""The daemon seen from outside: metrics and health as pages of one HTTP listener."""

from autoscaler.daemon.exposition.instruments import Instruments
from autoscaler.daemon.exposition.listener import Listener, ListenError
from autoscaler.daemon.exposition.page import Metrics
from autoscaler.daemon.exposition.reporter import MetricsReporter
from autoscaler.daemon.exposition.site import Site

__all__ = [
    "Instruments",
    "ListenError",
    "Listener",
    "Metrics",
    "MetricsReporter",
    "Site",
]
