"""Prometheus: queries over its HTTP API, also of compatible servers (Thanos, Mimir)."""

from autoscaler.prometheus.reader import PrometheusReader

__all__ = ["PrometheusReader"]
