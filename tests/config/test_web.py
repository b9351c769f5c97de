"""`web`: the address of pages and API, sign-ins, and wrong settings and files."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from autoscaler.config import Address
from autoscaler.config.exposure import warnings_of
from autoscaler.config.web_files import users_in
from tests.config.documents import cases, loaded, refused, top
from tests.narrowing import known
from tests.worlds.certificates import of_loopback
from tests.worlds.prometheus.web_config import HASHES, NEW

SECRET = "hunter2hunter2"  # noqa: S105 - what must not be seen
TLS = "tls: {certFile: server.crt, keyFile: server.key}"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with files of all kinds, good and bad."""
    of_loopback(tmp_path, "server")
    of_loopback(tmp_path, "other")
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / "users").write_text(f'alice: "{HASHES[NEW]}"\nbob: {HASHES[NEW]}\n')
    (tmp_path / "junk").write_text(SECRET + " " + SECRET)
    (tmp_path / "empty").touch()
    key = load_pem_private_key((tmp_path / "server.key").read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    (tmp_path / "locked.key").write_bytes(locked)
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    return tmp_path


def test_without_web_the_pages_are_at_listen(tmp_path: Path) -> None:
    config = loaded(tmp_path, top("listen: 127.0.0.1:9"))
    assert config.web_listen == config.listen
    assert (config.web_url, config.web.tls, config.web.auth) == ("http://127.0.0.1:9", None, None)
    assert loaded(tmp_path, top("web:")).web == config.web
    assert loaded(tmp_path, top("listen: null")).web_listen is None


def test_every_setting_of_web_arrives(files: Path) -> None:
    auth = "auth: {bearerTokenFile: token, basicAuthUsersFile: users}"
    tls = TLS.replace("}", ", clientAuthType: RequireAndVerifyClientCert, clientCAFile: other.crt}")
    config = loaded(files, top(f"web: {{listen: 0.0.0.0:9443, {tls}, {auth}}}"))
    assert config.web_listen == Address("0.0.0.0", 9443)  # noqa: S104 - not listened on
    assert config.listen == Address("127.0.0.1", 9191)
    assert config.web_url == "https://127.0.0.1:9443"
    assert config.web.needs_certificate
    assert known(config.web.auth).bearer_token_file == files / "token"
    assert warnings_of(config) == []


WRONG = """
listen: nowhere => .listen: must be an address and a port
listen: 127.0.0.1:9191 => : as the document's `listen` is: leave it out
auth: {} => .auth: needs bearerTokenFile, basicAuthUsersFile or both
auth: {bearerTokenFile: junk} => .auth.bearerTokenFile: does not contain a token
auth: {bearerTokenFile: empty} => .auth.bearerTokenFile: is empty
auth: {bearerTokenFile: SECRET} => .auth.bearerTokenFile: must name a file
auth: {basicAuthUsersFile: junk} => .auth.basicAuthUsersFile: holds no users
auth: {basicAuthUsersFile: empty} => .auth.basicAuthUsersFile: `htpasswd -nB NAME`
tls: {certFile: server.crt} => .tls.keyFile: missing
tls: {certFile: none.crt, keyFile: server.key}
    => .tls.certFile: must name a file, and there is no file
tls: {certFile: junk, keyFile: server.key} => .tls.certFile: no certificate in PEM
tls: {certFile: server.crt, keyFile: junk} => .tls.keyFile: no private key in PEM
tls: {certFile: server.crt, keyFile: other.key}
    => .tls.keyFile: /other.key is not the key of the certificate in
tls: {certFile: server.crt, keyFile: locked.key}
    => .tls.keyFile: holds an encrypted key; right is one without a password
TLS, minVersion: TLS10} => .tls.minVersion: must be TLS12 or TLS13
TLS, clientAuthType: VerifyClientCertIfGiven}
    => .tls.clientAuthType: needs clientCAFile
TLS, clientCAFile: other.crt} => .tls.clientCAFile: has no use without clientAuthType
TLS, clientAuthType: VerifyClientCertIfGiven, clientCAFile: junk}
    => .tls.clientCAFile: no certificate in PEM
""".replace("SECRET", SECRET).replace("TLS,", TLS.replace("}", ","))


@pytest.mark.parametrize(("web", "path", "fragment"), cases(str, "web", WRONG))
def test_a_wrong_setting_of_web_is_refused_without_its_secret(
    files: Path, web: str, path: str, fragment: str
) -> None:
    problems = refused(files, top(f"web: {{{web}}}"))
    assert path in {problem.path for problem in problems}
    assert fragment in next(str(problem) for problem in problems if problem.path == path)
    assert SECRET not in str([str(problem) for problem in problems])


@pytest.mark.parametrize(
    ("listen", "needs_tls"),
    [
        *((listen, True) for listen in ('":9443"', "0.0.0.0:9443", "10.0.0.1:9443", '"[::]:9443"')),
        *((listen, False) for listen in ("127.0.0.1:9443", "localhost:9443", '"[::1]:9443"')),
    ],
)
@pytest.mark.parametrize("place", ["web: {{listen: {}, {}}}", "listen: {}\nweb: {{{}}}"])
def test_credentials_over_the_network_need_tls(
    files: Path, listen: str, place: str, *, needs_tls: bool
) -> None:
    text = top(place.format(listen, "auth: {bearerTokenFile: token}"))
    if needs_tls:
        (problem,) = refused(files, text)
        assert "auth needs tls" in str(problem)
    else:
        loaded(files, text)
    loaded(files, text.replace("auth:", f"{TLS}, auth:"))


def test_tls_needs_an_address(files: Path) -> None:
    (problem,) = refused(files, top(f"listen: null\nweb: {{{TLS}}}"))
    assert "needs a listen of its own for tls, since `listen` is null" in str(problem)
    config = loaded(files, top(f"listen: null\nweb: {{listen: ':9443', {TLS}}}"))
    assert config.web_listen == Address("", 9443)


USERS = [
    ("alice: hunter2", "alice has no bcrypt hash"),
    ("alice:$2b$04$x", "holds no users"),
    ("- alice", "holds no users"),
    ("{", "holds no users"),
    (f'"al:ice": {HASHES[NEW]}', 'the name "al:ice" is empty or has a ":"'),
    (f"alice: {HASHES[NEW].replace('$04$', '$31$')}", "the hash of alice has the cost 31"),
    (f"alice: {HASHES[NEW].replace('$2b$', '$6$')}", "alice has no bcrypt hash"),
    (f"alice: {HASHES[NEW][:28]}x{HASHES[NEW][29:]}", "alice has no bcrypt hash"),
    (f"bob: {HASHES[NEW]}\nalice: x\ncarol:", "alice has no bcrypt hash; carol has no bcrypt hash"),
    ('"\\e[2J\\u202e": x', r"\x1b[2J\u202e has no bcrypt hash"),
]


@pytest.mark.parametrize(("text", "fragment"), USERS)
def test_wrong_users_are_refused_by_name(files: Path, text: str, fragment: str) -> None:
    """A text in place of a hash may be a password, and is not shown."""
    (files / "users").write_text(text)
    (problem,) = refused(files, top("web: {auth: {basicAuthUsersFile: users}}"))
    assert fragment in str(problem)
    assert "hunter2" not in str(problem)


def test_hashes_of_htpasswd_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("\n".join(f"u{n}: ${v}${HASHES[NEW][4:]}" for n, v in enumerate(("2a", "2y"))))
    assert list(users_in(file)) == ["u0", "u1"]


def test_secrets_that_others_may_read_are_warned_of(files: Path) -> None:
    for name in ("server.key", "token", "users"):
        (files / name).chmod(0o644)
    auth = "auth: {bearerTokenFile: token, basicAuthUsersFile: users}"
    warnings = warnings_of(loaded(files, top(f"web: {{{TLS}, {auth}}}")))
    assert [warning.partition(":")[0] for warning in warnings] == [
        "web.tls.keyFile",
        "web.auth.bearerTokenFile",
        "web.auth.basicAuthUsersFile",
    ]
