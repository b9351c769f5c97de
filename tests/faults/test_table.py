"""docs/faults.md is true: each of its rows has a proof, and each proof a row."""

import re
from pathlib import Path

import pytest

from tests.app import test_faults as test_syncs
from tests.endtoend import test_reload
from tests.faults import test_apiserver, test_credentials, test_ours, test_prometheus
from tests.faults.rows import Row
from tests.leadership import test_processes
from tests.store import test_failures as test_state

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

PROOFS: dict[str, dict[str, object]] = {
    "Prometheus": {row.name: row for row in test_prometheus.ROWS},
    "API server": {row.name: row for row in test_apiserver.ROWS}
    | {
        "410 in a watch": test_apiserver.test_410_in_a_watch,
        "watch cut silently": test_apiserver.test_a_watch_that_falls_silent,
        "answer to a write lost": test_apiserver.test_the_answer_to_a_write_is_lost,
        "restarted under load": test_apiserver.test_the_api_server_restarts_under_load,
        "both servers away at the start": test_ours.test_servers_that_are_away_at_the_start,
    },
    "The daemon's own side": {
        "disk full": test_ours.test_a_disk_that_takes_nothing,
        "state directory cannot be written": test_state.test_a_directory_that_cannot_be_written,
        "state damaged": test_state.test_a_damaged_database_is_set_aside,
        "state of a newer version": (
            test_state.test_a_database_of_a_newer_version_is_left_as_it_is
        ),
        "the leader hangs, is cut off or dies": (
            test_processes.test_who_is_stopped_writes_nothing_after_another_took_over,
            test_processes.test_who_is_cut_off_writes_nothing_after_another_took_over,
            test_processes.test_by_default_a_dead_leader_is_replaced_within_20_seconds,
        ),
        "clock set": test_syncs.test_a_clock_that_is_set_frees_no_limit_early,
        "10,000-line configuration": test_ours.test_a_configuration_of_ten_thousand_lines,
        "SIGHUP storm": test_reload.test_sighup_reads_again_and_a_storm_of_them_does_no_harm,
        "two daemons at once": test_ours.test_two_daemons_at_once,
        "Prometheus' credentials rotate": test_credentials.test_credentials_rotate_under_load,
        "the API server's credentials rotate": (
            test_credentials.test_credentials_rotate_under_load,
            test_credentials.test_a_service_account_token_rotates_under_load,
        ),
    },
}


def rows_of(page: str) -> dict[str, dict[str, list[str]]]:
    """Return the cells of each row of a page's tables of faults, by heading and by first cell."""
    found: dict[str, dict[str, list[str]]] = {}
    heading, within = "", False
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        within = line.startswith("| fault |") or (within and line.startswith("|"))
        if within and not line.startswith(("|---", "| fault |")):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.setdefault(heading, {})[cells[0]] = cells
    return found


def test_every_row_has_a_proof_and_every_proof_a_row() -> None:
    """The names are the same, heading by heading."""
    told = {heading: set(rows) for heading, rows in rows_of(PAGE.read_text()).items()}
    assert told == {heading: set(proofs) for heading, proofs in PROOFS.items()}


@pytest.mark.parametrize(
    ("heading", "row"),
    [
        pytest.param(heading, row, id=f"{heading}: {row.name}")
        for heading, proofs in PROOFS.items()
        for row in proofs.values()
        if isinstance(row, Row)
    ],
)
def test_the_words_are_those_of_the_log(heading: str, row: Row) -> None:
    """What the test finds in the log stands on the page."""
    told = rows_of(PAGE.read_text())[heading][row.name][2]
    assert re.search(row.seen, told), told
