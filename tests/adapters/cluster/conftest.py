"""Our adapters on the cluster under test."""

import pytest

from autoscaler.kubernetes import Api, Scales


@pytest.fixture
def scales(api: Api) -> Scales:
    return Scales(api)
