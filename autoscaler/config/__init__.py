"""YAML -> targets and settings, or all errors at once."""

from autoscaler.config.conversion import to_core
from autoscaler.config.fields import Address
from autoscaler.config.loading import load
from autoscaler.config.problems import ConfigError, Problem
from autoscaler.config.settings import Config, KubernetesSettings, LeaderElection, Sources

__all__ = [
    "Address",
    "Config",
    "ConfigError",
    "KubernetesSettings",
    "LeaderElection",
    "Problem",
    "Sources",
    "load",
    "to_core",
]
