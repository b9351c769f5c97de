"""The table of `plan`: what is printed is what was said, to the last character."""

import pytest

from autoscaler.cli.planning import _print_table
from autoscaler.core.observation import Scale
from autoscaler.core.series import QueryFailure
from tests.app.world import T0, Memory, external


@pytest.mark.parametrize("text", ["[/foo]", 'up{job=~"[a-z]+"}', "a:car:rate5m", "[red]x[/red]"])
def test_the_table_takes_no_text_for_markup(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Prometheus' own words hold brackets and colons; none of them is left out or drawn."""
    world = Memory(answers={"queue": QueryFailure(text)}, scales={"shop/a": Scale(2, 2, "app=a")})
    with world.syncer() as syncer:
        syncer.sync([external("shop", "a")], T0, 10.0)
    _print_table(world.results)
    assert text in capsys.readouterr().out
