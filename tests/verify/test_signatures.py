"""`ssh-keygen -Y` makes and checks signatures; a changed manifest or an unknown signer is refused."""

import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from jcache.errors import InvalidValue, JcacheError, Untrusted
from jcache.text import is_shown
from jcache.verify import signatures
from jcache.verify.signatures import NAMESPACE, check_key, check_signature, sign, verify
from tests.helpers import waiting
from tests.helpers.signatures import allowed, needs_openssh, new_key, public, signature_by, ssh_keygen

DATA = b'{"items":[\n]}\n'
NO_WAIT = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module", name="key")
def key_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("keys") / "key")


@pytest.fixture(scope="module", name="signature")
def signature_fixture(key: Path) -> bytes:
    return sign(DATA, key)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Check that no temporary file outlives a call, and that the user's agent is not used."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield folder
    assert not list(folder.iterdir())


# Signatures


@needs_openssh
@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_what_a_key_signs_is_accepted(tmp_path: Path, kind: str) -> None:
    """Keys of every type sign, and the principal is the one in the file of allowed signers."""
    key = new_key(tmp_path / "a key", kind=kind)
    signers = allowed(tmp_path, f"alice@example.com,bob {public(key)}")
    signature = sign(DATA, key)
    assert verify(DATA, signature, signers) == "alice@example.com"
    assert check_signature(DATA, signature) == ssh_keygen("-l", "-f", key).stdout.split()[1].decode()


@needs_openssh
@pytest.mark.parametrize("options", ["-O hashalg=sha256", "-O hashalg=sha512"])
def test_a_signature_made_by_hand_is_accepted(key: Path, tmp_path: Path, options: str) -> None:
    """`ssh-keygen -Y sign -n jcache-archive` signs a manifest as well, with either hash."""
    signers = allowed(tmp_path, f"alice {public(key)}")
    assert verify(DATA, signature_by(key, tmp_path, DATA, options=options), signers) == "alice"


@needs_openssh
@NO_WAIT
@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_nothing_changed_passes(key: Path, signature: bytes, at: int, bit: int) -> None:
    """Changed data is refused; so is a changed signature, unless it still is one of the same data by the same key."""

    def changed(text: bytes) -> bytes:
        place = at % len(text)
        return text[:place] + bytes([text[place] ^ 1 << bit]) + text[place + 1 :]

    for data in (changed(DATA), DATA[: at % len(DATA)], DATA + b"\n"):
        with pytest.raises(Untrusted, match="not one of this manifest"):
            check_signature(data, signature)
    with pytest.raises(Untrusted):
        check_signature(DATA, signature[: at % (len(signature) - 1)])
    with suppress(Untrusted):  # ssh-keygen passes over blanks, and over what stands behind the end
        assert check_signature(DATA, changed(signature)) == check_signature(DATA, sign(DATA, key))


@needs_openssh
@pytest.mark.parametrize("text", [b"", b"text", b"\0\xff", b"x" * 100_000])
def test_what_is_no_signature_is_refused(text: bytes) -> None:
    """A text that is no signature of the data is refused in one line."""
    with pytest.raises(Untrusted) as caught:
        check_signature(DATA, text)
    assert str(caught.value).isprintable()


@needs_openssh
def test_another_namespace_is_refused(key: Path, tmp_path: Path) -> None:
    """A signature of a file or a git commit is not accepted for an archive."""
    signers = allowed(tmp_path, f"alice {public(key)}")
    for namespace in ("git", "file", "jcache-archive2"):
        with pytest.raises(Untrusted, match="namespace does not match"):
            verify(DATA, signature_by(key, tmp_path, DATA, namespace=namespace), signers)


# Allowed signers


@needs_openssh
def test_a_stranger_is_refused(key: Path, signature: bytes, tmp_path: Path) -> None:
    """A key that is not listed is named by its fingerprint, as ssh-keygen prints it."""
    other = new_key(tmp_path / "other")
    with pytest.raises(Untrusted, match="if you trust its owner") as caught:
        verify(DATA, signature, allowed(tmp_path, f"alice {public(other)}"))
    assert ssh_keygen("-l", "-f", key).stdout.split()[1].decode() in str(caught.value)


@needs_openssh
@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ("", True),
        (f'namespaces="{NAMESPACE}"', True),
        ('namespaces="git,jcache-*"', True),
        ('namespaces="git"', False),
        ('namespaces="*,!jcache-archive"', False),
        ('namespaces="jcache-archiv?"', True),
        ('valid-after="20200101Z"', True),
        ('valid-after="29990101"', False),
        ('valid-before="29990101"', True),
        ('valid-before="20200101Z"', False),
        ('namespaces="jcache-archive",valid-before="20250101"', False),
        ("cert-authority", False),
        ('unknown="x"', False),
    ],
)
def test_options_restrict_a_key(key: Path, signature: bytes, tmp_path: Path, options: str, passes: bool) -> None:
    """Namespaces and times hold as ssh-keygen(1) has them; an authority's key signs nothing itself."""
    signers = allowed(tmp_path, f"alice {options} {public(key)}" if options else f"alice {public(key)}")
    if passes:
        assert verify(DATA, signature, signers) == "alice"
    else:
        with pytest.raises(Untrusted, match="does not allow the key"):
            verify(DATA, signature, signers)


@needs_openssh
def test_an_authority_lets_in_whom_it_certifies(key: Path, tmp_path: Path) -> None:
    """A certificate signs for the principals that its authority certified, and for nobody else."""
    authority = new_key(tmp_path / "authority")
    own = new_key(tmp_path / "own")
    assert ssh_keygen("-s", authority, "-I", "id", "-n", "alice@example.com", f"{own}.pub").returncode == 0
    signature = sign(DATA, Path(f"{own}-cert.pub"))
    signers = allowed(tmp_path, f"*@example.com cert-authority {public(authority)}")
    assert verify(DATA, signature, signers) == "alice@example.com"
    for line in (f"*@example.org cert-authority {public(authority)}", f"*@example.com cert-authority {public(key)}"):
        with pytest.raises(Untrusted):
            verify(DATA, signature, allowed(tmp_path, line))


@needs_openssh
def test_a_second_line_of_a_key_counts(key: Path, signature: bytes, tmp_path: Path) -> None:
    """One line that allows a key is enough, whatever is wrong with the others."""
    old, new = f'old valid-before="20200101" {public(key)}', f"new {public(key)}"
    assert verify(DATA, signature, allowed(tmp_path, "malformed", old, new)) == "new"


@needs_openssh
@pytest.mark.parametrize(
    ("principals", "name"),
    [
        ('"a b"', "a b"),
        ("*@example.com", "*@example.com"),
        ("alice,!bob", "alice"),
        ("!bob,alice", "alice"),
        ("-Oprint-pubkey", "-Oprint-pubkey"),
        ("$(id);`id`", "$(id);`id`"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\u202eb", "a\\u202eb"),
        ("!alice", None),
        ("!alice,!bob", None),
        ("!*", None),
        ("*,!*", None),
    ],
)
def test_principals(key: Path, signature: bytes, tmp_path: Path, principals: str, name: str | None) -> None:
    """A principal is passed as one argument whatever it contains, and shown in one line; a list of exceptions
    allows nobody.
    """
    signers = allowed(tmp_path, "# people", f"\t{principals}   {public(key)}  and more words", "", "   # last")
    if name is not None:
        assert verify(DATA, signature, signers) == name
    else:
        with pytest.raises(Untrusted):
            verify(DATA, signature, signers)


@needs_openssh
@NO_WAIT
@example(principals=",,")
@given(principals=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n"), min_size=1, max_size=9))
def test_nobody_is_let_in_without_a_name(key: Path, signature: bytes, tmp_path: Path, principals: str) -> None:
    """Whatever precedes a key in its line, the signature is refused or has a signer that can be shown."""
    try:
        said = verify(DATA, signature, allowed(tmp_path, f"{principals} {public(key)}"))
    except Untrusted as error:
        said = str(error)
    assert said and not said.startswith("!") and all(map(is_shown, said))


@needs_openssh
@pytest.mark.parametrize(
    "line",
    ["alice", "alice ssh-ed25519", "alice ssh-ed25519 !!!", "alice namespaces=git {key}", 'alice valid-after="x" {key}',
     'alice unknown="x" {key}', "{key}"],
)  # fmt: skip
def test_a_malformed_line_is_named(key: Path, signature: bytes, tmp_path: Path, line: str) -> None:
    """A malformed line allows nobody, and the message has the line and the right form."""
    with pytest.raises(Untrusted, match=r"line 2: .*me@example.org ssh-ed25519 AAAA"):
        verify(DATA, signature, allowed(tmp_path, "# people", line.format(key=public(key))))


@needs_openssh
def test_signers_that_cannot_be_read_are_an_error(signature: bytes, tmp_path: Path) -> None:
    """A missing file, a directory or an endless file allows nobody."""
    for path in (tmp_path / "missing", tmp_path, Path("/dev/zero")):
        with pytest.raises(InvalidValue, match=r"allowed signers"):
            verify(DATA, signature, path)


@needs_openssh
def test_signers_may_come_from_a_pipe(key: Path, signature: bytes, tmp_path: Path) -> None:
    """`--allowed-signers <(curl …)` works: the file is read once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", 'echo "$1" > "$2"', "sh", f"alice {public(key)}", pipe]):
        assert verify(DATA, signature, pipe) == "alice"


# Keys


@needs_openssh
@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", None])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A file that is missing, empty, or something else is refused before anything is signed."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(InvalidValue, match=r"Cannot sign with .*ssh-keygen -t ed25519"):
        check_key(path)


@needs_openssh
def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """ssh-keygen's reason is shown without the frame around it."""
    key = new_key(tmp_path / "key")
    key.chmod(0o644)
    with pytest.raises(InvalidValue, match=r"says 'Permissions 0644 for .* are too open'"):
        check_key(key)


@needs_openssh
def test_a_public_key_alone_is_refused(tmp_path: Path) -> None:
    """A public key signs only by its private key: beside it, or in ssh-agent."""
    key = new_key(tmp_path / "key")
    assert sign(DATA, Path(f"{key}.pub")) == sign(DATA, key)
    key.unlink()
    with pytest.raises(InvalidValue, match="ssh-agent"):
        check_key(Path(f"{key}.pub"))


@pytest.fixture(name="locked")
def locked_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a key with a passphrase that a program types when it is asked."""
    answer = tmp_path / "answer"
    answer.write_text("#!/bin/sh\necho secret\n")
    answer.chmod(0o700)
    for name, value in {"SSH_ASKPASS": str(answer), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}.items():
        monkeypatch.setenv(name, value)
    return new_key(tmp_path / "key", passphrase="secret")


@needs_openssh
def test_a_program_may_ask_for_the_passphrase(locked: Path, tmp_path: Path) -> None:
    """SSH_ASKPASS answers if SSH_ASKPASS_REQUIRE says so, as for ssh."""
    assert check_key(locked)
    assert verify(DATA, sign(DATA, locked), allowed(tmp_path, f"alice {public(locked)}")) == "alice"


@needs_openssh
def test_an_agent_signs(locked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh-agent signs with a key that it holds, and no passphrase is needed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the path of a socket must be
        socket = Path(short, "agent")
        with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL) as agent:
            try:
                waiting.until(socket.exists)
                monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
                subprocess.run(["ssh-add", "-q", locked], check=True, stdin=subprocess.DEVNULL)
                assert not check_key(locked)
                locked.unlink()
                signature = sign(DATA, Path(f"{locked}.pub"))
                assert verify(DATA, signature, allowed(tmp_path, f"alice {public(locked)}")) == "alice"
            finally:
                agent.terminate()


# ssh-keygen


@needs_openssh
def test_a_program_that_ignores_its_children(key: Path, signature: bytes, tmp_path: Path) -> None:
    """Where the exit code of ssh-keygen is lost, a signature of other data is refused, and one of the data accepted."""
    signers = allowed(tmp_path, f"alice {public(key)}")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert verify(DATA, signature, signers) == "alice"
        for data, text in ((DATA + b"\n", signature), (DATA, b"no signature")):
            with pytest.raises(Untrusted, match="not one of this manifest"):
                verify(data, text, signers)
    finally:
        signal.signal(signal.SIGCHLD, before)


def _stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the name ssh-keygen that is the first on the path."""
    program = folder / "bin" / "ssh-keygen"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


@pytest.mark.parametrize(
    "says",
    ["unknown option -- Y\nusage: ssh-keygen [-q] [-b bits]", 'Unsupported operation for -Y: "find-principals"', None],
)
def test_openssh_that_is_missing_or_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None) -> None:
    """If ssh-keygen is missing or too old, one sentence says what to install."""
    if says is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        _stand_in(tmp_path, f"echo '{says}' >&2; exit 255", monkeypatch)
    signers = allowed(tmp_path, "alice key")
    for work in (lambda: sign(DATA, tmp_path / "key"), lambda: verify(DATA, b"signature", signers)):
        with pytest.raises(JcacheError, match=r"install OpenSSH's client, 8\.2 or later") as caught:
            work()
        assert caught.value.exit_code == 1 and "\n" not in str(caught.value)


def test_ssh_keygen_that_does_not_end(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh-keygen is stopped after a time limit; its files lie in a directory that no other user can read."""
    seen = tmp_path / "seen"
    _stand_in(tmp_path, f"pwd > {seen}; stat -c %a . >> {seen}; exec sleep 1000", monkeypatch)
    monkeypatch.setattr(signatures, "_CHECK_LIMIT_S", 1)
    before = time.monotonic()
    with pytest.raises(JcacheError, match="has not ended within 1 seconds"):
        check_signature(DATA, b"signature")
    assert time.monotonic() - before < waiting.LIMIT_S
    folder, mode = seen.read_text().split()
    assert Path(folder).parent == temporary.resolve() and int(mode, 8) == stat.S_IRWXU


def test_a_temporary_directory_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full or missing temporary directory is reported in one sentence."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(JcacheError, match="Cannot write temporary files"):
        check_signature(DATA, b"signature")
