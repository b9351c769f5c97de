"""Which targets are meant by names on the command line, and what is said of unknown ones."""

import pytest

from autoscaler.cli.target_names import UnknownTargetError, chosen

KEYS = [
    "shop/Deployment/order-worker",
    "shop/Deployment/web",
    "shop/StatefulSet/web",
    "test/Deployment/web",
]


def refused(*names: str, keys: list[str] = KEYS) -> str:
    """Return what is said of names that are refused."""
    with pytest.raises(UnknownTargetError) as error:
        chosen(names, keys)
    return str(error.value)


def test_names() -> None:
    """A key names one target, NAMESPACE/NAME each of that name, and no name all."""
    assert chosen(["shop/StatefulSet/web"], KEYS) == {"shop/StatefulSet/web"}
    assert chosen(["shop/web"], KEYS) == {"shop/StatefulSet/web", "shop/Deployment/web"}
    assert chosen([], KEYS) == set(KEYS)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("order-worker", "shop/order-worker"),
        ("shop/deployment/order-worker", "shop/order-worker"),
        ("Shop/Order-Worker", "shop/order-worker"),
        ("prod/order-worker", "shop/order-worker"),
        ("order-wroker", "shop/order-worker"),
        ("shop/order", "shop/order-worker"),
        ("deployment/order-worker", "shop/order-worker"),
        ("web", "shop/web or test/web"),
        ("test/deploy/web", "test/web"),
    ],
)
def test_what_was_meant(name: str, meant: str) -> None:
    """A namespace that is left out, another case and misspelling are seen through."""
    assert refused(name) == f"no target is called {name}; did you mean {meant}?"


def test_several_unknown_names() -> None:
    """Each that is clear has its line; the others have the list of what there is."""
    assert refused("shop/web", "x", "order-worker", "y").splitlines() == [
        "no target is called order-worker; did you mean shop/order-worker?",
        f"no target is called x, y; there are: {', '.join(KEYS)}",
    ]


def test_at_most_ten_are_listed() -> None:
    """There may be thousands, or none."""
    keys = [f"shop/Deployment/worker-{number}" for number in range(12)]
    assert refused("x", keys=keys) == (
        f"no target is called x; there are: {', '.join(keys[:10])} and 2 more"
    )
    assert refused("x", keys=[]) == "no target is called x; there are none"
