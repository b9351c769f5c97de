"""YAML -> what is to be scaled, and how; or every mistake in it, at once."""

from autoscaler.config.conversion import to_core
from autoscaler.config.fields import Address
from autoscaler.config.loading import load, parse_spec
from autoscaler.config.problems import ConfigError, Problem
from autoscaler.config.settings import (
    BasicAuth,
    Config,
    KubernetesSettings,
    LeaderElection,
    PrometheusSettings,
    Sources,
    Tls,
)

__all__ = [
    "Address",
    "BasicAuth",
    "Config",
    "ConfigError",
    "KubernetesSettings",
    "LeaderElection",
    "Problem",
    "PrometheusSettings",
    "Sources",
    "Tls",
    "load",
    "parse_spec",
    "to_core",
]
