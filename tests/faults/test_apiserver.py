"""Faults of the API server: the struck object stays as it is, and the others are scaled."""

import re
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.faults.rows import LONG, Begin, Row, on, play
from tests.worlds.controlplane.api import ApiError
from tests.worlds.controlplane.workloads import collection
from tests.worlds.faults.bed import LEFT, RIGHT, Bed, defects, says
from tests.worlds.faults.loads import HIGH, LOW, MAXIMUM
from tests.worlds.proxies import plays
from tests.worlds.proxies.http import Concerns, Fault
from tests.worlds.proxies.wire import Request
from tests.worlds.waiting import wait_until

pytestmark = pytest.mark.punctual

AUTHORIZATION = "Authorization"
SUPERSEDED = "another client set {}"
NOT_WRITTEN = "not written: "
"""What the operator sees, as patterns."""


def scale_of(name: str) -> Concerns:
    return lambda request: f"/deployments/{name}/scale" in request.target


def on_its_scale(fault: Fault) -> Begin:
    """Play a fault on the scale of the struck target."""
    return on("to_api", scale_of, fault)


def refused(bed: Bed, _struck: str) -> AbstractContextManager[object]:
    return bed.to_api.refusing()


def not_found(bed: Bed, struck: str) -> AbstractContextManager[object]:
    """Ask for an object that there is not."""
    old, new = f"{struck}", f"{struck}-is-gone"

    def elsewhere(request: Request) -> Request:
        body = request.body.replace(f'"{old}"'.encode(), f'"{new}"'.encode())
        return request.with_target(request.target.replace(old, new)).with_body(body)

    return on_its_scale(plays.instead(elsewhere))(bed, struck)


def as_nobody(bed: Bed, struck: str) -> AbstractContextManager[object]:
    """Be a user who may do nothing."""
    token = f"Bearer {bed.plane.token_for('nobody')}"
    fault = plays.instead(lambda request: request.with_header(AUTHORIZATION, token))
    return on_its_scale(fault)(bed, struck)


def touched(bed: Bed, struck: str) -> AbstractContextManager[object]:
    """Somebody else changes the object between every read and write of its scale."""
    count = iter(range(1_000_000))

    def touch() -> None:
        # An annotation would count as a change of the spec.
        bed.api.patch(bed.path(struck), {"metadata": {"labels": {"touched": str(next(count))}}})

    return on_its_scale(plays.meanwhile(touch))(bed, struck)


def _row(name: str, begin: Begin, seen: str, **more: Any) -> Row:
    # The log and the Event say FailedRescale, the condition FailedUpdateScale, as the HPA does.
    return Row(name, begin, f"FailedRescale: .*{seen}", "AbleToScale", **more)


def _fails(*failure: str, **headers: str) -> Begin:
    return on_its_scale(plays.failure(*failure, **headers))


ROWS = [
    _row("refused", refused, "connection refused", strikes_all=True, lasting=LONG),
    _row("hangs", on_its_scale(plays.hang), "answer in time", lasting=LONG),
    _row("never begins", on_its_scale(plays.never_begin), "answer in time", lasting=LONG),
    _row(
        "401",
        on_its_scale(
            plays.instead(lambda request: request.with_header(AUTHORIZATION, "Bearer unknown"))
        ),
        "credentials .*Unauthorized",
    ),
    _row("403", as_nobody, "nobody.*deployments/scale"),
    _row("404", not_found, "not found"),
    _row("409", touched, "been modified"),
    _row(
        "429",
        _fails("429 Too Many Requests", "TooManyRequests", "try again later", Retry_After="1"),
        "try again later",
        lasting=LONG,
    ),
    _row(
        "500",
        _fails("500 Internal Server Error", "InternalError", "etcdserver: leader changed"),
        "500.*InternalError.*etcdserver",
    ),
    _row(
        "503",
        _fails("503 Service Unavailable", "ServiceUnavailable", "starting"),
        "503.*ServiceUnavailable",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_fault_of_the_api_server_delays_only_the_struck_target(bed: Bed, row: Row) -> None:
    play(bed, row)


def is_watch(request: Request) -> bool:
    return "/deployments?" in request.target and "watch=true" in request.target


def too_old(request: Request) -> Request:
    """Watch from a version that the API server has forgotten."""
    return request.with_target(
        re.sub("resourceVersion=[0-9]+", "resourceVersion=1", request.target)
    )


def test_with_a_silent_watch_no_count_set_by_others_is_overwritten(bed: Bed) -> None:
    """Decisions continue, and a count set by another client is not overwritten unseen.

    The daemon wants 3 instead of the 6 that it knows; there are 8 by now, and a write that was
    decided on 6 must not land.  The refusal names the 8, and the daemon decides again.
    """
    high, low = bed.high_and_low()
    begin = bed.mark()
    assert wait_until("a silent watch", lambda: bed.to_api.silence(is_watch))
    try:
        bed.set_by_hand(high, MAXIMUM - 1)
        bed.demand(low, HIGH)
        bed.wait_for(low, HIGH)
        assert bed.replicas(high) == MAXIMUM - 1
        bed.demand(high, LOW)
        told = SUPERSEDED.format(MAXIMUM - 1)
        bed.wait_line(high, f"says: {told}", says(told), begin)
        bed.wait_for(high, LOW)
    finally:
        bed.to_api.cut(is_watch)
    assert defects(bed.daemon.lines[begin:]) == []


def test_a_write_whose_answer_is_lost_counts_once(bed: Bed) -> None:
    high, low = bed.high_and_low()
    begin, changes = bed.mark(), bed.changes(high)

    def is_write(request: Request) -> bool:
        return request.method == "PUT" and scale_of(high)(request)

    with bed.to_api.playing(plays.swallow, is_write) as playing:
        bed.demand(high, LOW)
        bed.demand(low, HIGH)
        bed.wait_line(high, "is scaled", lambda line: line.get("write") == "written", begin)
    bed.wait_for(low, HIGH)
    assert len(playing.met) == 1
    assert bed.changes(high) == changes + 1
    assert defects(bed.daemon.lines[begin:]) == []


def test_after_a_restart_of_the_api_server_only_decided_counts_are_written(bed: Bed) -> None:
    """It is killed amid writes; that it forbids all at first, without roles, is not believed."""
    bed.high_and_low()
    begin = bed.mark()

    def written(since: int) -> None:
        for name in (LEFT, RIGHT):
            bed.wait_line(name, "is scaled", lambda line: line.get("write") == "written", since)

    with bed.swinging(LEFT, RIGHT):
        written(begin)
        bed.plane.stop_apiserver(grace=0)
        try:
            bed.wait_line(LEFT, "is not scaled", says(NOT_WRITTEN), begin)
        finally:
            bed.plane.start_apiserver()
        written(bed.mark())
    bed.high_and_low()
    lines = bed.daemon.lines[begin:]
    assert {line["desired_replicas"] for line in lines if line.get("write") == "written"} == {
        LOW,
        HIGH,
    }
    assert [line for line in lines if line["event"] == "not_watched"] == []
    assert defects(lines) == []


def remembers_little(bed: Bed) -> bool:
    """Tell whether the API server has forgotten the oldest version, as after a restart."""
    try:
        watch = bed.api.watch(collection("Deployment", bed.namespace), resourceVersion="1")
    except ApiError as error:
        if error.status != 429:  # as it is until its storage is ready
            raise
        return False
    try:
        gone: bool = next(iter(watch))["object"].get("code") == 410
    finally:
        watch.cancel()
    return gone


def test_a_watch_that_expires_is_listed_again(bed: Bed) -> None:
    high, low = bed.high_and_low()
    begin = bed.mark()
    if not remembers_little(bed):
        bed.plane.restart_apiserver(grace=0)
        wait_until("old versions forgotten", lambda: remembers_little(bed))
    with bed.to_api.playing(plays.instead(too_old), is_watch) as playing:
        # Unless it is just being begun again, which meets the fault without our doing.
        bed.to_api.cut(is_watch)
        wait_until("the 410", lambda: playing.met)
        bed.set_by_hand(high, MAXIMUM - 1)
        bed.demand(low, HIGH)
        bed.wait_for(low, HIGH)
        # The list shows what the watch did not.
        bed.wait_for(high, HIGH)
    assert defects(bed.daemon.lines[begin:]) == []
