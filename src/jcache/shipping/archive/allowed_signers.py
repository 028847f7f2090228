"""Who may sign: the file of allowed signers that ``ssh-keygen -Y verify -f`` reads.

    line       = principals [options] type key [comment] | "#" … | nothing
    principals = a list of patterns, separated by commas; quoted if there is a blank in it
    options    = option ("," option)*
    option     = "cert-authority" | "namespaces=" quoted | "valid-after=" quoted | "valid-before=" quoted
    time       = YYYYMMDD[HHMM[SS]]["Z"]                  of the local time zone without the Z

Lines of certificate authorities are read and let nobody in, since certificates are not taken.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import InvalidValue

_MAX_FILE: Final = 16 << 20
_WORD = re.compile(r'((?:[^\s"]|"(?:[^"\\]|\\.)*")+)(?:[ \t]+|$)')
_OPTION = re.compile(r'([A-Za-z-]+)(?:="((?:[^"\\]|\\.)*)")?(?:,|$)')
_TIME = re.compile(r"(\d{8})(?:(\d{4})(\d{2})?)?(Z?)", re.ASCII)
_KEY_TYPES = re.compile(r"(ssh|ecdsa|sk-ssh|sk-ecdsa|rsa|webauthn)[-a-z0-9@.]*", re.ASCII)
_SECOND: Final = 1_000_000_000


class Signer(NamedTuple):
    """A line of the file.

    Attributes:
        line: its number, from 1 on.
        principals: who the key belongs to, as the file has it.
        key: as it is in signatures.
        is_authority: whether it only certifies other keys.
        namespaces: patterns of what it may sign for; None for everything.
        after_ns, before_ns: when it is valid, nanoseconds since 1970.
    """

    line: int
    principals: str
    key: bytes
    is_authority: bool = False
    namespaces: str | None = None
    after_ns: int | None = None
    before_ns: int | None = None

    def may_sign(self, namespace: str, now_ns: int) -> bool:
        """Whether its signatures for a namespace are good at this time."""
        return (
            not self.is_authority
            and (self.namespaces is None or _matches(namespace, self.namespaces))
            and (self.after_ns is None or now_ns >= self.after_ns)
            and (self.before_ns is None or now_ns <= self.before_ns)
        )


def read_allowed_signers(path: Path) -> list[Signer]:
    """The signers of a file.

    Raises:
        InvalidValue: it cannot be read, or a line of it is malformed.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"Cannot read the allowed signers {path}: {getattr(error, 'strerror', error)}.") from error
    if len(data) > _MAX_FILE:
        raise InvalidValue(f"{path} is too large for a file of allowed signers.")
    signers = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            signers.append(_signer(number, stripped))
        except ValueError as error:
            raise InvalidValue(f"Line {number} of the allowed signers {path} is malformed: {error}.") from error
    return signers


def _signer(number: int, line: str) -> Signer:
    words: list[str] = []
    at = 0
    while at < len(line) and len(words) < 4:
        match = _WORD.match(line, at)
        if not match:
            raise ValueError("a quote is not closed")
        words.append(match[1])
        at = match.end()
    if words and _KEY_TYPES.fullmatch(words[0]):
        raise ValueError("whose key it is must stand in front of it, as in `me@example.org ssh-ed25519 AAAA…`")
    has_options = len(words) > 1 and not _KEY_TYPES.fullmatch(words[1])
    options = _options(words.pop(1)) if has_options else {}
    if len(words) < 3:
        raise ValueError("it has not principals, a type and a key")
    if all(principal.strip().startswith("!") for principal in words[0].strip('"').split(",")):
        raise ValueError("it says whose key it is not: name whose it is")
    return Signer(
        line=number,
        principals=words[0].strip('"'),
        key=_key(words[1], words[2]),
        is_authority="cert-authority" in options,
        namespaces=options.get("namespaces"),
        after_ns=_time(options.get("valid-after")),
        before_ns=_time(options.get("valid-before")),
    )


def _options(text: str) -> dict[str, str | None]:
    options: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        match = _OPTION.match(text, at)
        if not match:
            raise ValueError("its options cannot be read")
        name, value = match[1].lower(), match[2]
        if name not in {"cert-authority", "namespaces", "valid-after", "valid-before"} or name in options:
            raise ValueError(f"the option {name} is unknown, or there twice")
        if (value is None) != (name == "cert-authority"):
            raise ValueError(f"the option {name} has no value in quotes, or one that it should not have")
        options[name] = value.replace('\\"', '"') if value else value
        at = match.end()
    return options


def _key(key_type: str, text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the key is not base64") from None
    length = int.from_bytes(key[:4], "big")
    if key[4 : 4 + length] != key_type.encode() or len(key) <= 4 + length:
        raise ValueError(f"the key is not of type {key_type}")
    return key


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(f"'{text}' is not a time such as 20301231 or 20301231235959Z")
    moment = datetime.strptime(match[1] + (match[2] or "0000") + (match[3] or "00"), "%Y%m%d%H%M%S")
    moment = moment.replace(tzinfo=UTC) if match[4] else moment.astimezone()
    return int(moment.timestamp()) * _SECOND


def _matches(text: str, patterns: str) -> bool:
    """Whether one of the patterns matches and none of those with a ``!`` does; ``*`` and ``?`` as in ssh_config(5)."""
    is_match = False
    for pattern in patterns.split(","):
        # fnmatch knows brackets as well, which are themselves here
        wanted = pattern.lstrip("!").replace("[", "[[]")
        if fnmatchcase(text, wanted):
            if pattern.startswith("!"):
                return False
            is_match = True
    return is_match
