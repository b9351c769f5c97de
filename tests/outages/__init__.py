"""Gaps in the samples under constant load: Prometheus, exporters or scrape targets are down."""
