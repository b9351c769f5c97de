"""Our adapters on the cluster under test."""

import pytest

from autoscaler.kubernetes import Api, Pods, Scales


@pytest.fixture
def scales(api: Api) -> Scales:
    """Give our adapter of the scale subresource."""
    return Scales(api)


@pytest.fixture
def pods(api: Api) -> Pods:
    """Give our adapter of pods."""
    return Pods(api)
