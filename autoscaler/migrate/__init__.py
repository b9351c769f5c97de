"""Importing other autoscalers' objects as targets, and moving workloads over and back."""
