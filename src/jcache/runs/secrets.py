"""Leave the values of options that may be secrets, and credentials in URLs, out of commands that are recorded."""

import re
from collections.abc import Iterable
from typing import Final

from jcache.text import masked

_NAME: Final = r"[\w.-]*(?:key|token|secret|passw|credential)[\w.-]*"
_WITH_VALUE: Final = re.compile(rf"(--?{_NAME}=|{_NAME}=).+", re.IGNORECASE | re.DOTALL)  # --api-key=…, API_KEY=…
_ALONE: Final = re.compile(rf"--?{_NAME}", re.IGNORECASE)
HIDDEN: Final = "…"


def without_secrets(command: Iterable[str]) -> tuple[str, ...]:
    """Return a command with ``…`` in the place of values that may be secrets: of options with key, token, secret or
    password in their names, of such variables before a command, and of users, passwords and queries in URLs.
    """
    words: list[str] = []
    is_value = False
    for word in command:
        shown = masked(word) if "://" in word else word
        words.append(HIDDEN if is_value and not word.startswith("-") else _WITH_VALUE.sub(rf"\1{HIDDEN}", shown))
        is_value = not is_value and _ALONE.fullmatch(word) is not None
    return tuple(words)
