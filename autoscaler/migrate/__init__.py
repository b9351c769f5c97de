"""Imports other autoscalers' objects as targets, and moves workloads over and back."""
