"""Signatures: ours are those of `ssh-keygen -Y sign`, and nothing that was touched or signed by a stranger passes."""

import subprocess
from pathlib import Path

import pytest

from jcache.errors import InvalidValue, Untrusted
from jcache.shipping.archive.signing import NAMESPACE, sign, verify

DATA = b'{"items":[\n]}\n'
SECOND = 1_000_000_000
NOON = 1_767_268_800 * SECOND  # 2026-01-01 12:00 UTC


def keygen(*words: str | Path, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["ssh-keygen", *map(str, words)], input=data, capture_output=True, check=False)


def new_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    done = keygen("-q", "-t", kind, "-N", passphrase, "-C", "me@here", "-f", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module", name="key")
def key_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("keys") / "key")


@pytest.fixture(scope="module", name="others")
def others_fixture(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("others")
    return {kind: new_key(directory / kind, kind) for kind in ("ed25519", "rsa", "ecdsa")}


def public(path: Path) -> str:
    return path.with_suffix(".pub").read_text().strip()


def allowed(path: Path, *lines: str) -> Path:
    file = path / "allowed"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def check(signature: bytes, signers: Path, *, data: bytes = DATA, namespace: str = NAMESPACE, now: int = NOON) -> str:
    return verify(data, signature, signers, namespace, now)


def keygen_signature(key: Path, place: Path, namespace: str = NAMESPACE, *more: str) -> bytes:
    file = place / "data"
    file.write_bytes(DATA)
    done = keygen("-Y", "sign", "-q", "-f", key, "-n", namespace, *more, file)
    assert done.returncode == 0, done.stderr
    signature = (place / "data.sig").read_bytes()
    (place / "data.sig").unlink()
    return signature


# With ssh-keygen, both ways


def test_ssh_keygen_takes_our_signature(key: Path, tmp_path: Path) -> None:
    """`ssh-keygen -Y verify` says that it is good, and `-Y find-principals` whose it is."""
    signers = allowed(tmp_path, f"alice@example.com,bob {public(key)}")
    (tmp_path / "sig").write_bytes(sign(DATA, key))
    words = ("-Y", "verify", "-f", signers, "-I", "bob", "-n", NAMESPACE, "-s", tmp_path / "sig")
    assert keygen(*words, data=DATA).returncode == 0
    assert keygen(*words, data=DATA + b" ").returncode != 0
    assert b"alice@example.com" in keygen("-Y", "find-principals", "-f", signers, "-s", tmp_path / "sig").stdout


@pytest.mark.parametrize("more", [(), ("-O", "hashalg=sha256"), ("-O", "hashalg=sha512")])
def test_we_take_the_signature_of_ssh_keygen(key: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    """With either hash; the principals are returned as the file has them."""
    signers = allowed(tmp_path, "# people", "", f"alice@example.com,bob {public(key)}")
    assert check(keygen_signature(key, tmp_path, NAMESPACE, *more), signers) == "alice@example.com,bob"


def test_our_signature_is_the_one_of_ssh_keygen(key: Path, tmp_path: Path) -> None:
    """Ed25519 leaves nothing to chance, and the armor is the same."""
    assert sign(DATA, key) == keygen_signature(key, tmp_path)


# Nothing else passes


def test_any_altered_byte_is_refused(key: Path, tmp_path: Path) -> None:
    """Of the data or of the signature, its armor included, whatever it becomes."""
    signers = allowed(tmp_path, f"alice {public(key)}")
    signature = sign(DATA, key)
    assert check(signature, signers) == "alice"
    for position in range(len(signature)):
        for other in {signature[position] ^ 1, signature[position] ^ 32, ord("A"), ord("\n"), ord(" "), 0}:
            changed = signature[:position] + bytes([other]) + signature[position + 1 :]
            if changed != signature:
                with pytest.raises(Untrusted):
                    check(changed, signers)
    for position in range(len(DATA)):
        touched = DATA[:position] + bytes([DATA[position] ^ 1]) + DATA[position + 1 :]
        with pytest.raises(Untrusted, match="not the one that was signed"):
            check(signature, signers, data=touched)


def test_every_truncation_and_extension_is_refused(key: Path, tmp_path: Path) -> None:
    """A signature is all there and nothing more."""
    signers = allowed(tmp_path, f"alice {public(key)}")
    signature = sign(DATA, key)
    broken = [signature[:length] for length in range(len(signature))]
    broken += [signature + b"\n", b"\n" + signature, signature * 2, signature.replace(b"\n", b"\r\n"), b"x" * 100_000]
    for text in broken:
        with pytest.raises(Untrusted):
            check(text, signers)


def test_a_stranger_is_refused(key: Path, others: dict[str, Path], tmp_path: Path) -> None:
    """A key that is not listed is named by its fingerprint, as ssh-keygen prints it."""
    signers = allowed(tmp_path, f"alice {public(key)}")
    with pytest.raises(Untrusted, match="does not list") as caught:
        check(sign(DATA, others["ed25519"]), signers)
    fingerprint = keygen("-l", "-f", others["ed25519"]).stdout.split()[1].decode()
    assert fingerprint in str(caught.value)


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_keys_of_other_kinds_are_refused(others: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """A good signature of a listed key is refused in words if the key is not Ed25519; it cannot sign here either."""
    signers = allowed(tmp_path, f"alice {public(others[kind])}")
    with pytest.raises(Untrusted, match="only ssh-ed25519"):
        check(keygen_signature(others[kind], tmp_path), signers)
    with pytest.raises(InvalidValue, match="Ed25519"):
        sign(DATA, others[kind])


def test_another_namespace_is_refused(key: Path, tmp_path: Path) -> None:
    """What was signed as a file or a git commit is not taken for an archive."""
    signers = allowed(tmp_path, f"alice {public(key)}")
    with pytest.raises(Untrusted, match="'git'"):
        check(keygen_signature(key, tmp_path, "git"), signers)
    with pytest.raises(Untrusted, match="jcache-archive"):
        check(sign(DATA, key), signers, namespace="git")


# Allowed signers


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ("", True),
        (f'namespaces="{NAMESPACE}"', True),
        ('namespaces="git,jcache-*"', True),
        ('NAMESPACES="jcache-archive"', True),
        ('namespaces="git"', False),
        ('namespaces="*,!jcache-archive"', False),
        ('namespaces="jcache-archiv?"', True),
        ('namespaces="[j]cache-archive"', False),
        ('namespaces=""', False),
        ('valid-after="20260101Z"', True),
        ('valid-after="202601011200Z"', True),
        ('valid-after="20260101120001Z"', False),
        ('valid-before="20260101120001Z"', True),
        ('valid-before="20260101115959Z"', False),
        ('valid-after="20250101",valid-before="20270101"', True),
        ('namespaces="jcache-archive",valid-before="20250101"', False),
        ("cert-authority", False),
    ],
)
def test_options_restrict_a_key(key: Path, tmp_path: Path, options: str, passes: bool) -> None:
    """Namespaces and times hold as ssh-keygen(1) has them; an authority's key signs nothing itself."""
    signers = allowed(tmp_path, f"alice {options} {public(key)}" if options else f"alice {public(key)}")
    if passes:
        assert check(sign(DATA, key), signers) == "alice"
    else:
        with pytest.raises(Untrusted, match="may not sign"):
            check(sign(DATA, key), signers)
    (tmp_path / "sig").write_bytes(sign(DATA, key))
    words = ("-Y", "verify", "-f", signers, "-I", "alice", "-n", NAMESPACE, "-s", tmp_path / "sig")
    theirs = keygen(*words, "-O", "verify-time=20260101120000Z", data=DATA)
    assert (theirs.returncode == 0) is passes, theirs.stderr


def test_times_are_local_without_a_z(key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time is of the machine's zone unless it ends in Z."""
    import time

    monkeypatch.setenv("TZ", "UTC-5")
    time.tzset()
    try:
        early = allowed(tmp_path, f'alice valid-after="20260101170000" {public(key)}')
        assert check(sign(DATA, key), early) == "alice"
        with pytest.raises(Untrusted):
            check(sign(DATA, key), early, now=NOON - SECOND)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_second_line_of_a_key_counts(key: Path, tmp_path: Path) -> None:
    """One line that allows is enough."""
    signers = allowed(tmp_path, f'old valid-before="20200101" {public(key)}', f"new {public(key)}")
    assert check(sign(DATA, key), signers) == "new"


@pytest.mark.parametrize(
    "line", ['"a b" {}', "*@example.com {}", "alice,!bob {} and more words", "\talice   {}  ", "alice {}"]
)
def test_lines_may_be_written_in_many_ways(key: Path, tmp_path: Path, line: str) -> None:
    """Quotes, patterns, comments, tabs and blanks."""
    assert check(sign(DATA, key), allowed(tmp_path, "# first", line.format(public(key)), "", "   # last"))


@pytest.mark.parametrize(
    "line",
    [
        "alice",
        "alice ssh-ed25519",
        "alice ssh-ed25519 !!!",
        "alice ssh-ed25519 AAAA",
        "alice ssh-rsa {key}",
        "alice {key}",
        'alice namespaces="git ssh-ed25519 {key}',
        "alice namespaces=git ssh-ed25519 {key}",
        'alice unknown="x" ssh-ed25519 {key}',
        "alice unknown ssh-ed25519 {key}",
        'alice valid-after="yesterday" ssh-ed25519 {key}',
        'alice valid-after="20261399" ssh-ed25519 {key}',
        'alice cert-authority="yes" ssh-ed25519 {key}',
        'alice namespaces="a",namespaces="b" ssh-ed25519 {key}',
        '"alice ssh-ed25519 {key}',
        "!alice ssh-ed25519 {key}",
    ],
)
def test_a_malformed_line_is_named(key: Path, tmp_path: Path, line: str) -> None:
    """A mistake in the file is an error with its line, and nobody is let in by guessing."""
    text = line.format(key=public(key).split()[1])
    signers = allowed(tmp_path, f"bob {public(key)}", text)
    with pytest.raises(InvalidValue, match="Line 2 of the allowed signers"):
        check(sign(DATA, key), signers)


def test_a_public_key_is_no_list_of_signers(key: Path, tmp_path: Path) -> None:
    """The likeliest mistake, the file of a key, is told what is lacking."""
    with pytest.raises(InvalidValue, match="whose key it is must stand in front of it"):
        check(sign(DATA, key), allowed(tmp_path, public(key)))


def test_signers_that_cannot_be_read_are_an_error(key: Path, tmp_path: Path) -> None:
    """A missing file, a directory or bytes that are no text let nobody in."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("missing", ".", "binary"):
        with pytest.raises(InvalidValue, match="allowed signers"):
            check(sign(DATA, key), tmp_path / name)


# Keys


def test_a_key_with_a_passphrase_names_the_way_out(tmp_path: Path) -> None:
    """jcache asks for no passphrase; the sentence names the command that makes a key without one."""
    with pytest.raises(InvalidValue, match="ssh-keygen -t ed25519 -N '' -f FILE"):
        sign(DATA, new_key(tmp_path / "locked", passphrase="secret"))


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", None])
def test_what_is_no_key_is_refused(tmp_path: Path, content: bytes | None) -> None:
    """A file that is missing, empty, or something else."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidValue, match="key"):
        sign(DATA, path)


def test_the_public_half_is_no_key_to_sign_with(key: Path) -> None:
    """A mix-up of the two files is told."""
    with pytest.raises(InvalidValue, match="no private key"):
        sign(DATA, key.with_suffix(".pub"))
