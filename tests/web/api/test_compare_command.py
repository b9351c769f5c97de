"""The command on the page of a target that compares other settings: it works as it is shown."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from autoscaler import clock
from autoscaler.web.site import Views
from tests.cli.test_commands import ran
from tests.web.pages.reading import ask
from tests.worlds.pages.fleets import NOW


@pytest.fixture
def views(fleet: Views, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Views:
    """Return the fleet with its real files, and a copy of the configuration that is changed."""
    monkeypatch.setattr(clock, "wall", lambda: NOW)
    monkeypatch.chdir(tmp_path)
    assert fleet.record is not None
    state = fleet.record._path.parent
    file = state.parent / "autoscaler.yaml"
    document = yaml.safe_load(file.read_text())
    for target in document["targets"]:
        target["maxReplicas"] += 1
    Path("changed.yaml").write_text(yaml.safe_dump(document))
    config = fleet.config().model_copy(update={"path": file, "state_directory": state})
    return replace(fleet, config=lambda: config)


def command(views: Views, key: str, query: str) -> list[str]:
    """Return the arguments that the page shows for a target."""
    program, *arguments = shlex.split(
        ask(views, f"/targets/{key}?{query}").page.by_id("compare-command").text
    )
    assert program == "autoscaler"
    return arguments


@pytest.mark.parametrize(
    "query", ["last=1h", "from=2026-03-12T01:30:00Z&to=2026-03-12T02:00:00.5Z"]
)
def test_the_command_compares_each_target(views: Views, query: str) -> None:
    """In whatever state it is; the shown time and the target are filled in."""
    for known in views.states.known():
        key = known.target.key
        code, printed, errors = ran(*command(views, key, query))
        assert (code, errors) == (0, ""), key
        lines = printed.splitlines()
        assert lines[0].startswith("2026-03-12T0"), printed
        assert f"  {key}" in lines


def test_without_a_record_or_a_target_there_is_no_command(views: Views) -> None:
    """Nothing could be compared."""
    page = ask(replace(views, record=None), "/targets/shop/Deployment/web").page
    assert not [one for one in page.elements if one.attributes.get("id") == "compare"]
