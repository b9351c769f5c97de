"""Open files, unencrypted credentials and doubtful settings are warnings without any secret."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from autoscaler.cli.cautions import cautions_on
from autoscaler.config import load
from autoscaler.config.exposure import warnings_of, warnings_of_access
from autoscaler.config.problems import MOST_PROBLEMS
from autoscaler.config.written import as_written
from tests.config.documents import cases, extended, external, loaded, prometheus, target, top

SECRET = "hunter2hunter2"  # noqa: S105 - what must not be seen


def secret(folder: Path, name: str, mode: int) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SECRET)
    path.chmod(mode)


SECRETS = """
bearerTokenFile: s => bearerTokenFile: s
basicAuth: {username: a, passwordFile: s} => basicAuth.passwordFile: s
oauth2: {clientId: a, clientSecretFile: s, tokenUrl: 'https://h'} => oauth2.clientSecretFile: s
sigv4: {accessKey: a, secretKeyFile: s} => sigv4.secretKeyFile: s
googleIam: {credentialsFile: s} => googleIam.credentialsFile: s
azuread: {oauth: {clientId: a, tenantId: b, clientSecretFile: s}}
    => azuread.oauth.clientSecretFile: s
azuread: {workloadIdentity: {tokenFilePath: s}} => azuread.workloadIdentity.tokenFilePath: s
headersFiles: {X-Key: s} => headersFiles.X-Key: s
tls: {certFile: s, keyFile: s} => tls.keyFile: s
"""


@pytest.mark.parametrize(("text", "key", "name"), cases(prometheus, "prometheus.", SECRETS))
def test_a_secret_that_all_may_read_is_a_warning(
    tmp_path: Path, text: str, key: str, name: str
) -> None:
    secret(tmp_path, name, 0o644)
    (warning,) = warnings_of(loaded(tmp_path, text))
    assert warning == (
        f"{key}: {tmp_path}/{name} can be read by every user of this machine (its mode is 0644); "
        "chmod 600 ends that"
    )


@pytest.mark.parametrize(
    ("mode", "parts"),
    [
        *((mode, []) for mode in (0o400, 0o600, 0o640, 0o440)),
        (0o604, ["read by every user of this machine ("]),
        (0o660, ["written by others than its owner ("]),
        (0o602, ["written by others than its owner ("]),
        (0o666, ["read by every user of this machine and written by others than its owner ("]),
    ],
)
def test_a_right_beyond_reading_by_the_group_is_a_warning(
    tmp_path: Path, mode: int, parts: list[str]
) -> None:
    secret(tmp_path, "s", mode)
    warnings = warnings_of(loaded(tmp_path, prometheus("bearerTokenFile: s\n")))
    assert all(part in warning for part, warning in zip(parts, warnings, strict=True))
    assert SECRET not in str(warnings)


def test_a_mounted_or_removed_secret_is_no_warning(tmp_path: Path) -> None:
    """The kubelet opens a volume to its pod only; the daemon reports a removed file."""
    secret(tmp_path, "volume/..2026_01_01/token", 0o644)
    (tmp_path / "volume" / "..data").symlink_to("..2026_01_01")
    (tmp_path / "volume" / "token").symlink_to("..data/token")
    assert warnings_of(loaded(tmp_path, prometheus("bearerTokenFile: volume/token\n"))) == []
    secret(tmp_path, "s", 0o644)
    config = loaded(tmp_path, prometheus("bearerTokenFile: s\n"))
    (tmp_path / "s").unlink()
    assert warnings_of(config) == []


@pytest.mark.parametrize(
    ("path", "mode", "open_to_others"),
    [
        ("etc/autoscaler.yaml", 0o644, False),
        ("etc/autoscaler.yaml", 0o664, True),
        ("etc/autoscaler.yaml", 0o646, True),
        ("etc/targets.d/a.yaml", 0o666, True),
        ("etc", 0o755, False),
        ("etc", 0o777, True),
        ("etc", 0o1777, False),
        ("etc/targets.d", 0o775, True),
        ("etc/targets.d", 0o1777, True),
    ],
)
def test_a_configuration_that_others_may_change_is_a_warning(
    tmp_path: Path, path: str, mode: int, open_to_others: bool
) -> None:
    """Files and their folders; the sticky bit guards files, not a pattern that matches new ones."""
    folder = tmp_path / "etc"
    (folder / "targets.d").mkdir(parents=True)
    (folder / "targets.d" / "a.yaml").write_text("targets: []\n")
    (folder / "autoscaler.yaml").touch()
    for file in (folder, folder / "targets.d", *folder.glob("**/*.yaml")):
        file.chmod(0o755 if file.is_dir() else 0o644)
    (tmp_path / path).chmod(mode)
    text = "prometheus: {url: http://p:9090}\ninclude: [targets.d/*.yaml]\n"
    expected = (
        f"the configuration: {tmp_path / path} can be written by others than its owner (its mode "
        f"is {mode:04o}), who can change what is scaled and how; chmod go-w ends that"
    )
    assert warnings_of(loaded(folder, text)) == [expected] * open_to_others


@pytest.mark.parametrize(
    ("mode", "open_to_others"), [(0o777, True), (0o775, True), (0o1777, False)]
)
def test_a_folder_above_that_others_may_change_is_a_warning(
    tmp_path: Path, mode: int, open_to_others: bool
) -> None:
    """A user who may write there can replace the folder below; links are followed."""
    folder = tmp_path / "above" / "between" / "etc"
    folder.mkdir(parents=True)
    (folder / "autoscaler.yaml").write_text(top(""))
    (tmp_path / "link").symlink_to("above/between/etc")
    (tmp_path / "link.yaml").symlink_to("above/between/etc/autoscaler.yaml")
    (tmp_path / "above").chmod(mode)
    expected = f"the configuration: {tmp_path / 'above'} can be written by others"
    for path in ("above/between/etc/autoscaler.yaml", "link/autoscaler.yaml", "link.yaml"):
        warnings = warnings_of(load(tmp_path / path))
        assert [warning.startswith(expected) for warning in warnings] == [True] * open_to_others


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_configuration_of_another_user_is_a_warning(tmp_path: Path) -> None:
    config = loaded(tmp_path, top(""))
    os.chown(tmp_path / "autoscaler.yaml", 4711, -1)
    (warning,) = warnings_of(config)
    assert warning.startswith(f"the configuration: {tmp_path}/autoscaler.yaml belongs to user 4711")


def test_a_mounted_configuration_is_no_warning(tmp_path: Path) -> None:
    """The kubelet lets all write the folder of a volume, which only its pod sees."""
    volume = tmp_path / "volume"
    (volume / "..1").mkdir(parents=True)
    (volume / "..1" / "autoscaler.yaml").write_text(top("include: ['*.yml']\n"))
    (volume / "..data").symlink_to("..1")
    (volume / "autoscaler.yaml").symlink_to("..data/autoscaler.yaml")
    volume.chmod(0o1777)
    tmp_path.chmod(0o777)  # a mount cannot be replaced
    assert warnings_of(load(volume / "autoscaler.yaml")) == []


def test_only_ten_of_many_open_files_are_named(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.yml").write_text("targets: []\n")
        (tmp_path / f"{number}.yml").chmod(0o666)
    warnings = warnings_of(loaded(tmp_path, top("include: ['*.yml']\n")))
    assert len(warnings) == 11
    assert warnings[-1] == "the configuration: 20 more files and folders are as open to others"


def test_unverified_certificates_are_a_warning(tmp_path: Path) -> None:
    (warning,) = warnings_of(loaded(tmp_path, prometheus("tls: {insecureSkipVerify: true}\n")))
    assert warning.startswith("prometheus.tls.insecureSkipVerify: any certificate is trusted")
    assert warnings_of(loaded(tmp_path, prometheus("tls: {serverName: a}\n"))) == []


@pytest.mark.parametrize(
    ("url", "open_way"),
    [
        ("http://prometheus:9090", True),
        ("http://10.0.0.7:9090", True),
        ("http://[2001:db8::1]:9090", True),
        ("https://prometheus:9090", False),
        ("http://localhost:9090", False),
        ("http://127.0.0.9:9090", False),
        ("http://[::1]:9090", False),
    ],
)
def test_unencrypted_credentials_are_a_warning(tmp_path: Path, url: str, open_way: bool) -> None:
    secret(tmp_path, "s", 0o600)
    for key, field in (
        ("bearerTokenFile", "bearerTokenFile: s\n"),
        ("basicAuth", "basicAuth: {username: u, passwordFile: s}\n"),
        ("headersFiles", "headersFiles: {X-Key: s}\n"),
        ("sigv4", "sigv4: {}\n"),
        ("googleIam", "googleIam: {}\n"),
    ):
        expected = f"prometheus.url: {key} is sent to {url} without encryption, so that anyone"
        warnings = warnings_of(loaded(tmp_path, prometheus(field, url)))
        assert [warning.startswith(expected) for warning in warnings] == [True] * open_way
    assert warnings_of(loaded(tmp_path, prometheus("timeout: 5s\n", url))) == []
    warnings = warnings_of_access("context a", [], url=url, verified=True)
    expected = f"context a: the server is {url}, so that anyone on the way"
    assert [warning.startswith(expected) for warning in warnings] == [True] * open_way


def test_an_unencrypted_secret_of_a_client_is_a_warning(tmp_path: Path) -> None:
    secret(tmp_path, "s", 0o600)
    text = "oauth2: {clientId: a, clientSecretFile: s, tokenUrl: 'http://login/token'}\n"
    (warning,) = warnings_of(loaded(tmp_path, prometheus(text)))
    assert warning.startswith("prometheus.oauth2.tokenUrl: the client's secret is sent to http://")


def test_a_password_in_the_url_of_the_server_is_not_shown() -> None:
    url = f"http://bot:{SECRET}@10.0.0.1:8080"
    (warning,) = warnings_of_access("context a", (), url=url, verified=True)
    assert SECRET not in warning
    assert "the server is http://10.0.0.1:8080, so" in warning


def test_an_open_kubeconfig_and_an_unverified_server_are_warnings(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("closed", 0o600)):
        secret(tmp_path, name, mode)
    secrets = [("kubeconfig", tmp_path / name) for name in ("closed", "open", "missing")]
    url = "https://10.0.0.1"
    readable, unverified = warnings_of_access("context a", secrets, url=url, verified=False)
    assert readable.startswith(f"kubeconfig: {tmp_path}/open can be read by every user")
    assert unverified.startswith("context a: insecure-skip-tls-verify is set, so that anyone")
    assert warnings_of_access("context a", secrets[:1], url=url, verified=True) == []


# -- what is probably not meant --------------------------------------------------------------------

T = "targets[0]."
S = T + "schedules[0]."
WINDOWS = {
    "DAY": "name: day, start: 0 8 * * *, end: 0 18 * * *",
    "NIGHT": "name: night, start: 0 22 * * *, end: 0 6 * * *",
    "SUNDAY": "name: sunday, start: 0 0 * * 0, end: 0 0 * * 1",
    "DECEMBER": "name: december, start: 0 0 1 12 *, end: 0 0 1 1 *, timezone: Europe/Berlin",
}


def with_windows(keys: str) -> str:
    return extended(re.sub("[A-Z]{3,}", lambda name: WINDOWS[name[0]], keys))


def windows(*keys: str) -> str:
    return with_windows("schedules: [{" + "}, {".join(keys) + "}]")


OF_ALL = """
scaleDownBreaker:
    => scaleDownBreaker: has no value, so that it is off; `scaleDownBreaker: {}` takes the defaults
web: {listen: ':9443'}
    => web.listen: others reach it, but only clients on this machine are answered: set web.auth
scaleDownBreaker: {share: 4%}
    => scaleDownBreaker: 4% of minTargets, which is 20, is less than one target: on a server with
    fewer than 25 targets a single scale-down would trip it, so none could happen; set minTargets
    to 25 or more
scaleDownBreaker: {minTargets: 3} => scaleDownBreaker: on a server with fewer than 4 targets
"""
OF_A_TARGET = """
schedules: [{name: day, start: 0 8 * * *, end: 00 8 * * *, maxReplicas: 3}]
    => schedules[0].end: comes at the instant of every start, so that the window never opens
schedules: [{name: a, start: 0 8 * * 1-5, end: '* * * * *', minReplicas: 2}]
    => schedules[0].end: never opens
syncPeriod: 30m; schedules: [{name: day, start: 0 8 * * *, end: 10 8 * * *, minReplicas: 2}]
    => schedules[0].end: comes 10m after a start, and the target is synced every 30m: such a window
    may open and close without any effect
idle: => idle: has no value, so that it is off; `idle: {}` takes
fallback: {replicas: 11}
    => fallback.replicas: is more than maxReplicas, which is 10: a fallback stays within the bounds
fallback: {replicas: 4, behavior: currentReplicas}
    => fallback.replicas: has no effect with behavior currentReplicas
schedules: [{SUNDAY, minReplicas: 5}, {DAY, maxReplicas: 3}]
    => schedules[0].minReplicas: of `day`, which is 3, and both windows can be open at once: the
    minimum then holds
schedules: [{DECEMBER, minReplicas: 5}, {SUNDAY, maxReplicas: 3}]
    => schedules[0].minReplicas: is more than the maxReplicas of `sunday`
schedules: [{NIGHT, minReplicas: 0}]
    => schedules[0].minReplicas: with `idle` in its place, 0 is a normal
paused: {replicas: 0} => paused.replicas: is 0, and the target's own minReplicas is not
"""
SHORT = """
name: a, start: 0 8 * * *, end: 4 8 * * *, minReplicas: 2 => end: comes 4m after a start
"""
DOUBTFUL = [
    *cases(top, "", OF_ALL),
    *cases(with_windows, T, OF_A_TARGET),
    *cases(lambda window: "syncPeriod: 5m\n" + windows(window), S, SHORT),
]


@pytest.mark.parametrize(("text", "path", "fragment"), DOUBTFUL)
def test_a_doubtful_setting_is_one_caution(
    tmp_path: Path, text: str, path: str, fragment: str
) -> None:
    (doubt,) = cautions_on(loaded(tmp_path, text))
    assert doubt.path == path
    assert fragment in doubt.message
    assert doubt.line is not None
    assert path.rpartition(".")[2].partition("[")[0] in text.splitlines()[doubt.line - 1]


FINE = [
    top("scaleDownBreaker: {}\n"),
    extended("idle: {}"),
    extended("idle: {}\npaused: {replicas: 0}"),
    with_windows("minReplicas: 0\nschedules: [{NIGHT, minReplicas: 0}]"),
    extended("fallback: {replicas: 10}"),
    with_windows("fallback: {replicas: 20}\nschedules: [{DAY, maxReplicas: 20}]"),
    extended("fallback: {behavior: currentReplicas}"),
    windows("DAY, minReplicas: 5", "NIGHT, maxReplicas: 3"),
    windows("SUNDAY, minReplicas: 5, maxReplicas: 9", "DAY, maxReplicas: 3"),
    windows("SUNDAY, minReplicas: 3", "DAY, maxReplicas: 3"),
    top("scaleDownBreaker: {share: 5%}"),
    top("scaleDownBreaker: {minTargets: 4}"),
    windows("name: a, start: 0 8 * * *, end: 1 8 * * *, minReplicas: 2"),
    # Closed at once on weekdays, and open at weekends.
    windows("name: a, start: 0 8 * * *, end: 0 8 * * 1-5, minReplicas: 2"),
    # At once for longer than is looked at.
    windows("name: a, start: '* * * * *', end: '* * * * 1-5', minReplicas: 2"),
    "syncPeriod: 30m\n" + windows("name: a, start: 0 8 * * *, end: 30 8 * * *, minReplicas: 2"),
]


@pytest.mark.parametrize("text", FINE)
def test_a_usual_setting_is_no_caution(tmp_path: Path, text: str) -> None:
    assert cautions_on(loaded(tmp_path, text)) == []


def test_cautions_are_bounded_and_of_every_file(tmp_path: Path) -> None:
    target_ = extended("idle:").partition("targets:\n")[2]
    more = "".join(target_.replace("name: web", f"name: web-{number}") for number in range(150))
    (tmp_path / "more.yaml").write_text(f"targets:\n{more}")
    text = extended("idle:") + "include: [more.yaml]\n"
    first, *others = cautions_on(loaded(tmp_path, text))
    assert first.file == str(tmp_path / "autoscaler.yaml")
    assert {other.file for other in others} == {str(tmp_path / "more.yaml")}
    assert len(others) + 1 == MOST_PROBLEMS


# -- a range that is not understood ----------------------------------------------------------------


UNKNOWN = "sum(rate(a[2m*2+1m]))"
MESSAGE = "it is not known how far back this PromQL reads: write its longest range as `window`"


def by_name(query: str) -> str:
    """Return a document with a metric whose query has a name."""
    document = external("metric: {name: rps}\ntarget: {type: Value, value: 1}\n")
    return document.replace("rps: sum by (pod) (rps)", f"rps: {query}")


def of_metric(query: str) -> str:
    """Return a document with a metric that has its own query."""
    return external(f"metric: {{name: m, query: {query}}}\ntarget: {{type: Value, value: 1}}\n")


def of_resource(query: str) -> str:
    """Return a document with a query of a resource."""
    return target("") + f"resourceQueries: {{cpu: {query}}}\n"


@pytest.mark.parametrize(
    ("form", "path"),
    [
        (by_name, "queries.rps"),
        (of_metric, "targets[0].metrics[0].external.metric.query"),
        (of_resource, "resourceQueries.cpu"),
    ],
)
def test_a_range_that_is_not_understood_needs_a_window(
    tmp_path: Path, form: Callable[[str], str], path: str
) -> None:
    for query, window, seconds in (
        (UNKNOWN, None, 300.0),
        ("max_over_time(rate(a[$__i])[1h:])", None, 3900.0),
        ("rate(a)", None, 300.0),
        (UNKNOWN, "20m", 1200.0),
        (UNKNOWN, "45s", 45.0),
        ("rate(a[20i]) / rate(b[10m])", "1m", 600.0),
    ):
        entry = f"{{query: '{query}', window: {window}}}" if window else f"'{query}'"
        config = loaded(tmp_path, form(entry))
        (asked,) = config.targets[0].queries
        assert (asked.range_seconds, asked.assumes_range) == (seconds, window is None)
        found = [problem for problem in cautions_on(config) if MESSAGE in problem.message]
        assert [text.path for text in found] == ([] if window else [path])
        assert all(text.line for text in found)
        # A target that is written as it is has the same query again.
        again = loaded(tmp_path, _document(as_written(config.targets[0])))
        assert again.targets[0].queries == (asked,)


def _document(written: object) -> str:
    return top("").replace("targets: []", f"targets: [{json.dumps(written)}]")


def test_a_hold_and_a_bound_need_no_window(tmp_path: Path) -> None:
    keys = f"holdScaleDownQuery: {UNKNOWN}\nminReplicasQuery: {UNKNOWN}\n"
    assert cautions_on(loaded(tmp_path, target(keys))) == []
