"""Autoscalers of others -> targets, as YAML to paste; what cannot be converted is `undecided`."""
