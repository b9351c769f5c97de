"""Our adapters on the cluster under test."""

import pytest

from autoscaler.kubernetes import Api, Pods, Scales


@pytest.fixture
def scales(api: Api) -> Scales:
    return Scales(api)


@pytest.fixture
def pods(api: Api) -> Pods:
    return Pods(api)
