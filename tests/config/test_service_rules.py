"""How the daemon runs: the rules, which test_rules.py plays, and what their keys mean."""

from pathlib import Path

import pytest

from autoscaler.config import Address, ConfigError, load
from autoscaler.config.loading import pod_namespace
from autoscaler.core.breaker import Breaker
from tests.config.documents import cases, loaded, top


def election(snippet: str) -> str:
    return top(f"leaderElection: {{{snippet}}}\n")


def breaker(snippet: str) -> str:
    return top(f"scaleDownBreaker: {{{snippet}}}\n")


BREAKERS = """
share: 30 => share: such as 30% (got 30)
share: a third => share: such as 30% (got
enabled: true => enabled: leave it out: a written key is on
share: 0% => share: in whole percent
share: 100% => share: from 1% to 99%
minTargets: 0 => minTargets: 1
hold: 30s ~> hold: must be from 1m to 12h
shares: 30% => shares: did you mean `share`?
"""
TOP = """
scaleDownBreaker: on => scaleDownBreaker: a mapping; write {} for its defaults
listen: 9191 => listen: must be an address and a port, such as 127.0.0.1:9191
listen: localhost => listen: or :9191 for all addresses
listen: off => listen: null listens nowhere (got off)
listen: '127.0.0.1:' => listen: an address and a port
listen: 127.0.0.1:99999 ~> listen: such as 127.0.0.1:9191
listen: http://127.0.0.1:9191 => listen: such as 127.0.0.1:9191
listen: ::1:9191 => listen: such as 127.0.0.1:9191, "[::1]:9191"
listen: '[1:2]:9191' ~> listen: such as 127.0.0.1:9191, "[::1]:9191"
stateDirectory: '' => stateDirectory: must not be empty
stateDirectory: false => stateDirectory: must be a text
stateDirectory: autoscaler.yaml ~> stateDirectory: must name a folder, and
stateDirectory: "a\\0b" ~> stateDirectory: must be the name of a folder
record: false => record: must be
record: {maxSize: 1M} ~> record.maxSize: must be 16Mi or more
record: {maxSize: 1GB} => record.maxSize: is not a quantity
record: {maxAge: 30m} ~> record.maxAge: must be from 1h to 3650d
events: 1 => events: must be true or false
perTargetMetrics: 'no' => perTargetMetrics: must be true or false
perTargetMetric: no => perTargetMetric: did you mean `perTargetMetrics`?
leaderElection: true => leaderElection: a mapping; write {} for its defaults
"""
ELECTIONS = f"""
enabled: true ~> namespace: the namespace of the Lease, which
enabled: 'yes' => enabled: must be true or false
namespace: A => namespace: must be a DNS label
name: a_b => name: must be a DNS name
name: {"a" * 254} => name: at most 253
identity: ' ' => identity: must not be empty
leaseDuration: 500ms ~> leaseDuration: must be from 1s to 1h
retryPeriod: 0s => retryPeriod: must be longer than 0
externalUrl: "http://{{host}}:9191" => externalUrl: such as http://{{hostname}}.autoscaler:9191
externalUrl: "http://{{hostname}}:9191/?a=b" => externalUrl: such as http://{{hostname}}.
"""
TIMES = """
leaseDuration: 10s
    ~> : leaseDuration is 10s, and must be longer than renewDeadline, 10s: a leader stops before
    another may start
renewDeadline: 1.2s, retryPeriod: 1s
    ~> : renewDeadline is 1s200ms, and must be longer than 1.2 times retryPeriod, 1s: else one late
"""
ROWS = [
    *cases(breaker, "scaleDownBreaker.", BREAKERS),
    *cases(top, "", TOP),
    *cases(election, "leaderElection.", ELECTIONS),
    *cases(election, "leaderElection", TIMES),
]

FINE = [
    top("listen:\nstateDirectory: null\nevents:\nperTargetMetrics: off\nleaderElection:\n"),
    top('listen: "[::1]:0"\nstateDirectory: state/of/this\nevents: no\n'),
    top("listen: :9191\nstateDirectory: ~/state\n"),
    election("enabled: true, namespace: a, name: a.b-c, identity: me@here"),
    election("leaseDuration: 1s, renewDeadline: 700ms, retryPeriod: 100ms"),
    election("enabled: true, namespace: a, externalUrl: 'http://{hostname}.autoscaler:9191/a'"),
]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:80", Address("localhost", 80)),
        (":9191", Address("", 9191)),
        ("'[::1]:0'", Address("::1", 0)),
        ("0.0.0.0:65535", Address("0.0.0.0", 65535)),  # noqa: S104 - nothing is bound here
    ],
)
def test_a_host_is_a_name_an_address_or_empty(tmp_path: Path, text: str, address: Address) -> None:
    assert loaded(tmp_path, top(f"listen: {text}\n")).listen == address
    assert str(address) == text.strip("'")


def test_null_turns_off_listening_and_the_record(tmp_path: Path) -> None:
    config = loaded(tmp_path, top("listen: null\nrecord:\nstateDirectory:\n"))
    assert (config.listen, config.record, config.state_directory) == (None, None, None)


def test_a_pod_knows_its_namespace(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("autoscaling\n")
    path = tmp_path / "autoscaler.yaml"
    path.write_text(election("enabled: true"))
    config = load(path, lambda: pod_namespace(tmp_path / "namespace"))
    assert config.leader_election.namespace == "autoscaling"
    with pytest.raises(ConfigError, match="known by itself only in a pod"):
        load(path, lambda: pod_namespace(tmp_path / "no"))
    path.write_text(election("enabled: true, namespace: other"))
    config = load(path, lambda: pod_namespace(tmp_path / "namespace"))
    assert config.leader_election.namespace == "other"


@pytest.mark.parametrize("content", [b"", b"\n", b"A b\n", b"\xff", b"../etc"])
def test_a_file_without_a_namespace_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "namespace").write_bytes(content)
    assert pod_namespace(tmp_path / "namespace") is None


def test_the_breaker_is_off_by_default_and_has_defaults(tmp_path: Path) -> None:
    assert loaded(tmp_path, top("scaleDownBreaker:\n")).breaker is None
    assert loaded(tmp_path, breaker("")).breaker == Breaker(30, 20, 600.0)
