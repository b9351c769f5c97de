"""docs/contributing/faults.md is true: each of its rows has a proof, and each proof a row."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autoscaler.kubernetes.watch_requests import WatchTimings
from tests.adapters.cluster import test_certificates, test_exec_plugins
from tests.adapters.record import test_failures as test_record_failures
from tests.adapters.store import test_earlier_state, test_failures, test_full_disk
from tests.adapters.watches import test_refusals, test_trust
from tests.config import test_refusal_cost
from tests.daemon import test_reload as test_reload_again
from tests.daemon import test_reporting, test_schedule, test_turn
from tests.daemon.leadership import test_daemons, test_processes, test_rates
from tests.endtoend import test_reload
from tests.faults import test_apiserver, test_clusters, test_credentials, test_ours, test_prometheus
from tests.faults.rows import Row
from tests.sync import test_faults as test_syncs
from tests.sync import test_others
from tests.web.pages import test_agreement as test_agreement_pages

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "faults.md"


class Proof:
    """Tests of a row's own, and patterns of what the operator sees, as far as they look for it."""

    def __init__(self, *tests: Callable[..., None], seen: Sequence[str] = ()) -> None:
        self.tests = tests
        self.seen = seen


PROOFS: dict[str, dict[str, Row | Proof]] = {
    "Prometheus": {row.name: row for row in test_prometheus.ROWS},
    "One faulty cluster": {
        row.name: Proof(
            test_clusters.test_a_faulty_cluster_delays_no_other_cluster,
            seen=[row.seen] if row.seen else [],
        )
        for row in test_clusters.ROWS
    },
    "API server": {
        **{row.name: row for row in test_apiserver.ROWS},
        "410 in a watch": Proof(test_apiserver.test_a_watch_that_expires_is_listed_again),
        "watch cut silently": Proof(
            test_apiserver.test_with_a_silent_watch_no_count_set_by_others_is_overwritten,
            test_trust.test_a_silent_cut_is_noticed,
            seen=[test_apiserver.SUPERSEDED.format(r"\d+")],
        ),
        "answer to a write lost": Proof(
            test_apiserver.test_a_write_whose_answer_is_lost_counts_once
        ),
        "restarted under load": Proof(
            test_apiserver.test_after_a_restart_of_the_api_server_only_decided_counts_are_written,
            seen=[test_apiserver.NOT_WRITTEN],
        ),
        "HPAs forbidden at the start": Proof(
            test_ours.test_nothing_is_written_before_other_autoscalers_can_be_listed,
            test_refusals.test_a_lasting_first_refusal_is_believed_and_noted,
            test_others.test_after_a_restart_a_target_stays_in_shadow_until_the_others_can_be_listed,
            seen=[test_ours.NOT_YET, test_ours.CONTROLLED],
        ),
        "start without servers": Proof(
            test_ours.test_a_daemon_scales_once_servers_missing_at_its_start_are_there,
            seen=[test_ours.NO_SCALE, test_ours.NO_METRIC],
        ),
    },
    "The daemon itself": {
        "disk full": Proof(
            test_ours.test_syncs_continue_from_memory_while_the_disk_takes_nothing,
            seen=[test_ours.IN_MEMORY, test_ours.NOT_KEPT],
        ),
        "unwritable state directory": Proof(
            test_failures.test_state_stays_in_memory_where_no_file_can_be_written,
            seen=[test_failures.CANNOT_BE_USED],
        ),
        "state lost": Proof(
            test_earlier_state.test_a_start_without_earlier_state_is_announced,
            seen=[test_earlier_state.NONE],
        ),
        "state damaged": Proof(
            test_earlier_state.test_a_damaged_database_is_set_aside,
            seen=[test_earlier_state.DAMAGED],
        ),
        "state of a newer version": Proof(
            test_earlier_state.test_a_database_of_a_newer_version_is_left_as_it_is,
            seen=[test_earlier_state.NEWER],
        ),
        "unwritable record": Proof(
            test_full_disk.test_store_and_record_continue_after_a_full_disk,
            test_record_failures.test_a_disk_that_does_not_answer_keeps_nobody_waiting,
            seen=[test_record_failures.TOO_SLOW],
        ),
        "damaged or newer record": Proof(
            test_record_failures.test_a_damaged_file_is_set_aside,
            test_record_failures.test_a_file_of_a_newer_version_is_left_alone,
            test_agreement_pages.test_a_file_that_cannot_be_read_costs_the_comparison_only,
            seen=[test_record_failures.SET_ASIDE, test_record_failures.NEWER],
        ),
        "leader lost": Proof(
            test_processes.test_a_stopped_leader_writes_nothing_after_another_took_over,
            test_processes.test_a_leader_that_is_cut_off_writes_nothing_after_another_took_over,
            test_processes.test_by_default_a_dead_leader_is_replaced_within_20_seconds,
            test_daemons.test_only_the_leader_writes_and_the_follower_takes_over,
        ),
        "daemon suspended": Proof(
            test_trust.test_after_a_suspension_no_scale_counts_before_the_next_list,
            test_rates.test_a_standby_that_was_away_keeps_the_leaders_rates,
            seen=[test_trust.STOOD_STILL, test_trust.LISTED, test_trust.NOT_LISTED],
        ),
        "clock set": Proof(
            test_syncs.test_a_clock_that_is_set_frees_no_limit_early,
            test_syncs.test_while_the_clock_is_ahead_of_prometheus_nothing_moves,
            test_reporting.test_a_step_of_the_clock_is_a_warning_with_its_seconds,
            seen=[test_reporting.CLOCK_SET, test_syncs.TOO_OLD],
        ),
        "10,000-line configuration": Proof(
            test_ours.test_ten_thousand_lines_load_and_a_broken_line_is_named,
            seen=[test_ours.NOT_A_NUMBER],
        ),
        "oversized or costly configuration": Proof(
            test_refusal_cost.test_a_refusal_costs_little, seen=[test_refusal_cost.TOO_LARGE]
        ),
        "SIGHUP storm": Proof(test_reload.test_sighup_reads_again_and_a_storm_of_them_does_no_harm),
        "reload during a hung sync": Proof(
            test_schedule.test_a_sync_that_hangs_lets_no_swap_take_place,
            test_reload_again.test_a_configuration_that_cannot_take_effect_is_tried_again,
            seen=[test_reload_again.RELOAD_FAILED],
        ),
        "two daemons": Proof(
            test_ours.test_of_two_daemons_one_writes_each_count,
            seen=[test_ours.SUPERSEDED.format(r"\d+")],
        ),
        "shared state directory": Proof(
            test_ours.test_a_second_daemon_waits_for_the_state_directory_and_takes_over,
            test_turn.test_the_lock_outlives_errors_of_the_disk,
            seen=[test_ours.AT_WORK, test_ours.TAKES_OVER],
        ),
        "Prometheus' credentials rotate": Proof(
            test_credentials.test_no_sync_fails_while_credentials_rotate
        ),
        "Kubernetes credentials rotate": Proof(
            test_credentials.test_no_sync_fails_while_credentials_rotate,
            test_credentials.test_no_request_fails_while_a_service_account_token_rotates,
            test_certificates.test_a_client_certificate_is_read_again_when_it_is_rejected,
            test_certificates.test_an_authority_is_read_again_when_the_server_is_not_trusted,
            test_certificates.test_a_client_certificate_that_tls_refuses_is_read_again,
            test_certificates.test_certificates_under_other_names_are_read_from_the_kubeconfig,
        ),
        "exec plugin hangs": Proof(
            test_exec_plugins.test_a_plugin_that_hangs_is_ended_with_its_children,
            test_exec_plugins.test_a_plugin_that_hangs_later_delays_nobody,
            test_exec_plugins.test_while_a_plugin_hangs_a_rejected_request_keeps_its_deadline,
            seen=[test_exec_plugins.REFUSED],
        ),
    },
}
SEEN = {
    f"{heading}: {name}": (row.seen,) if isinstance(row, Row) else row.seen
    for heading, rows in PROOFS.items()
    for name, row in rows.items()
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
    told = {heading: set(rows) for heading, rows in rows_of(PAGE.read_text()).items()}
    assert told == {heading: set(proofs) for heading, proofs in PROOFS.items()}


@pytest.mark.parametrize("row", [row for row, patterns in SEEN.items() if patterns])
def test_the_page_quotes_what_the_tests_find(row: str) -> None:
    heading, name = row.split(": ", 1)
    told = rows_of(PAGE.read_text())[heading][name][2]
    for pattern in SEEN[row]:
        assert re.search(pattern, told), (pattern, told)
    for sentence in [quoted for quoted in re.findall("`([^`]+)`", told) if " " in quoted]:
        assert any(re.search(pattern, sentence) for pattern in SEEN[row]), sentence


def test_a_first_refusal_is_believed_and_a_silent_watch_is_noticed_within_a_minute() -> None:
    timings = WatchTimings()
    assert (timings.first_refusal_confirmed_after, timings.longest_pause) == (60.0, 10.0)
    assert timings.longest_watch + timings.grace <= 60
