"""Prometheus: a real one and the adapter that asks it."""
