"""Prometheus: queries over its HTTP API, or that of anything that speaks it (Thanos, Mimir)."""

from autoscaler.prometheus.reader import PrometheusReader

__all__ = ["PrometheusReader"]
