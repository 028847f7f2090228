"""Print arbitrary text, such as paths, in sentences and in commands that can be run as they are printed."""

from __future__ import annotations

from typing import Final

_JOINING: Final = "\u200c\u200d"  # they join letters, and emojis


def is_shown(character: str) -> bool:
    """Return whether a character is printed as it is: no control character, change of direction or surrogate."""
    if character.isprintable() or character in _JOINING:
        return True
    import unicodedata

    return unicodedata.category(character) == "Zs"  # spaces other than the usual one, as between ideographs


def shown(text: str) -> str:
    """Return a text in one line, with escapes in place of the characters that are not printed as they are."""
    return text if text.isprintable() else "".join(c if is_shown(c) else escaped(c) for c in text)


def escaped(character: str) -> str:
    r"""Return a character as Python and bash write it between quotes, such as ``\n``."""
    text = character.encode("unicode_escape").decode()
    return rf"\u00{text[2:]}" if text[:2] == r"\x" and character > "\x7f" else text


def quoted(text: str) -> str:
    """Return a text as one word of a command; control characters need a shell that knows ``$'…'``: bash or zsh."""
    if text.isprintable() or all(map(is_shown, text)):
        import shlex

        return shlex.quote(text)
    inner = "".join(rf"\{c}" if c in r"\'" else c if is_shown(c) else _as_bytes(c) for c in text)
    return f"$'{inner}'"


def command(words: str, root: object, rest: str = "") -> str:
    """Return a command of jcache for a root, ready to run: every command that a message suggests is made here.

    Args:
        words: the command, with its options.
        root: path of the root; None for the default one.
        rest: words behind the root, such as ``-- CMD``.
    """
    named = [] if root is None else [f"--root {quoted(str(root))}"]
    return " ".join([f"jcache {words}", *named, *([rest] if rest else [])])


def _as_bytes(character: str) -> str:
    r"""Return a character for a shell of any locale: bash reads ``\u202e`` only where the locale has that character."""
    if character.isascii():
        return escaped(character)
    return "".join(rf"\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
