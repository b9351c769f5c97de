"""Which targets may select the same pods."""

from autoscaler.sync.overlaps import Overlaps

WEB = "app=web"


def test_of_what_is_gone_nothing_is_left() -> None:
    """Neither of a target nor of its namespace, so that those that come and go cost nothing."""
    overlaps = Overlaps()
    for number in range(3):
        overlaps.register(f"n{number}/Deployment/web", f"n{number}", WEB)
        overlaps.register(f"shop/Deployment/web{number}", "shop", f"app=web{number}")
    for number in range(3):
        overlaps.forget(f"n{number}/Deployment/web")
        overlaps.forget(f"shop/Deployment/web{number}")
    assert overlaps._namespaces == {}
    assert overlaps._selectors == {}
    assert overlaps._candidates == {}


def test_those_that_stay_are_still_compared() -> None:
    """One leaves, and another of the same labels comes."""
    overlaps = Overlaps()
    for name in ("one", "two", "three"):
        overlaps.register(name, "shop", WEB if name != "three" else "app=other")
    overlaps.forget("one")
    assert overlaps.candidates("two") == {}
    overlaps.register("four", "shop", WEB)
    assert overlaps.candidates("two") == {"four": WEB}
    assert overlaps.candidates("four") == {"two": WEB}
    assert overlaps.candidates("three") == {}
