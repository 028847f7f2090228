"""Print arbitrary text, such as paths, in sentences and in commands that can be run as they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

ELLIPSES: Final = ("…", "...")  # the second one where the first cannot be encoded
_MOST_COMPARED: Final = 10_000
_AS_CLOSE: Final = 0.1  # the difference of ratios up to which one word is as near as another
_JOINING: Final = "\u200c\u200d"  # they join letters, and emojis


def is_shown(character: str) -> bool:
    """Return whether a character is printed as it is: no control character, change of direction or surrogate."""
    if character.isprintable() or character in _JOINING:
        return True
    import unicodedata

    return unicodedata.category(character) == "Zs"  # spaces other than the usual one, as between ideographs


_WORDS: Final = re.compile(r"(?:`[^`]*`|[^ `]|`)+")  # a command between backquotes counts as one word
_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SECRETS: Final = re.compile(r"(?<=://).*@|(?<=\?)\S+")
_HEAD: Final = re.compile(r" *(?:[^ `]+ {2,})?")


def shown(text: str) -> str:
    """Return a text in one line, with escapes in place of the characters that are not printed as they are."""
    return text if text.isprintable() else "".join(c if is_shown(c) else escaped(c) for c in text)


def escaped(character: str) -> str:
    r"""Return a character as Python and bash write it between quotes, such as ``\n``."""
    text = character.encode("unicode_escape").decode()
    return rf"\u00{text[2:]}" if text[:2] == r"\x" and character > "\x7f" else text


def is_url(text: str) -> bool:
    """Return whether a text is a URL and not a path or a name."""
    return _URL.match(text) is not None


def masked(text: str) -> str:
    """Return a text in which URLs have no user, no password and no query."""
    return _SECRETS.sub(lambda found: f"{ELLIPSES[0]}@" if found[0].endswith("@") else ELLIPSES[0], text)


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


def wrapped(text: str, width: int) -> str:
    """Return a text whose lines break at words, as far as they fit; a command between backquotes stays in one line.

    A line that is indented, or begins with a word and two blanks, as ``health  ok``, goes on below its text.

    Args:
        text: one or more lines.
        width: number of characters that a line should have at most.
    """
    return "\n".join(line if len(line) <= width else _wrapped_line(line, width) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    head = _HEAD.match(line)
    start = head[0] if head and len(head[0]) <= width // 2 else ""
    lines = [start]
    for word in _WORDS.findall(line.removeprefix(start)):
        is_first = len(lines[-1]) == len(start)
        if is_first or len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += word if is_first else f" {word}"
        else:
            lines.append(" " * len(start) + word)
    return "\n".join(lines)


def _as_bytes(character: str) -> str:
    r"""Return a character for a shell of any locale: bash reads ``\u202e`` only where the locale has that character."""
    if character.isascii():
        return escaped(character)
    is_byte = "\udc80" <= character <= "\udcff"  # of an argument or a path that is not UTF-8
    data = character.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    return "".join(rf"\x{byte:02x}" for byte in data)


def nearest(
    word: str, choices: Iterable[str], synonyms: Mapping[str, str] | None = None, *, most: int = 3
) -> list[str]:
    """Return the choices that somebody may have meant who wrote a word, the likeliest first.

    Args:
        word: what was written.
        choices: what can be written, of which at most 10,000 are compared.
        synonyms: by other words, the choices that they stand for.
        most: at most so many.
    """
    from difflib import SequenceMatcher, get_close_matches
    from itertools import islice

    known = list(islice(dict.fromkeys(choices), _MOST_COMPARED))
    others = {other: choice for other, choice in (synonyms or {}).items() if choice in known}
    by_lower = others | {choice.lower(): choice for choice in reversed(known)}
    lower = word.lower()
    named = [others[lower]] if lower in others else []
    begun = [choice for choice in known if lower and choice.lower().startswith(lower)]
    ratios = {match: SequenceMatcher(a=lower, b=match).ratio() for match in get_close_matches(lower, by_lower, n=most)}
    best = max(ratios.values(), default=0.0)
    close = [by_lower[match] for match, ratio in ratios.items() if ratio > best - _AS_CLOSE]
    return list(dict.fromkeys(named or begun or close))[:most]


def did_you_mean(words: Iterable[str]) -> str:
    """Return the end of a sentence that asks whether one of some words was meant; empty for no words."""
    quoted_words = [f"'{word}'" for word in words]
    if not quoted_words:
        return ""
    *first, last = quoted_words
    listed = f"{', '.join(first)} or {last}" if first else last
    return f"; did you mean {listed}?"


def unknown_choice(
    word: str, fault: str, choices: Iterable[str], *, synonyms: Mapping[str, str] | None = None, others: str = ""
) -> str:
    """Return the sentences about a word that is none of some choices: the fault, what was meant, and all choices.

    Args:
        word: what was written.
        fault: what is said about it, such as ``is not a kind``.
        choices: what can be written.
        synonyms: as in `nearest`.
        others: the choices to name, where they are not all; a text.
    """
    known = list(choices)
    near = did_you_mean(nearest(word, known, synonyms))
    return f"'{word}' {fault}{f'{near} Choose' if near else ': choose'} from {others or ', '.join(known)}."
