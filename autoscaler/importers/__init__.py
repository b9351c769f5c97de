"""Autoscalers of others -> targets, as YAML to paste: HorizontalPodAutoscalers and ScaledObjects.

What cannot be converted stands in a target as `undecided`, with which no configuration is valid.
"""
