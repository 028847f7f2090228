"""Words of other tools for jcache's commands and options, for "did you mean"; imported only for an unknown word."""

from collections.abc import Iterable
from typing import Final

from jcache.text import did_you_mean, nearest

_COMMANDS: Final = {
    "ls": ("list", "ll", "dir-list", "find", "search", "entries"),
    "show": ("cat", "inspect", "describe", "get"),
    "explain": ("why", "diagnose", "miss", "misses", "diff", "compare"),
    "info": ("status", "summary", "overview", "doctor"),
    "stats": ("history", "report", "hits", "runs"),
    "du": ("size", "sizes", "usage", "df"),
    "prune": ("gc", "evict", "trim", "cleanup", "vacuum", "expire", "shrink"),
    "clear": ("clean", "purge", "wipe", "reset", "flush", "empty"),
    "rm": ("delete", "remove", "del", "forget", "unlink", "erase", "drop"),
    "pin": ("keep", "protect", "lock"),
    "unpin": ("unprotect", "unlock", "release"),
    "verify": ("check", "fsck", "validate", "repair", "test", "scrub"),
    "quarantine": ("restore", "damaged"),
    "export": ("save", "dump", "backup", "pack", "upload"),
    "import": ("load", "unpack", "download", "merge"),
    "run": ("exec", "start", "launch"),
    "warm": ("warmup", "warm-up", "prefetch", "preheat", "fill"),
    "env": ("environment", "vars", "activate"),
    "dir": ("path", "root", "where", "location"),
    "completion": ("completions", "complete"),
}
_OPTIONS: Final = {
    "--root": ("--dir", "--directory", "--path", "--cache-dir", "--cache"),
    "--yes": ("--force", "--assume-yes", "--no-confirm", "--noconfirm", "--confirm"),
    "--dry-run": ("--dryrun", "--simulate", "--what-if", "--pretend", "--plan"),
    "--filter": ("--where", "--select", "--query", "--match", "--grep", "--name"),
    "--sort": ("--sort-by", "--order-by", "--orderby"),
    "--limit": ("--count", "--top", "--head", "--num", "--max-count"),
    "--columns": ("--fields", "--column", "--cols"),
    "--kind": ("--type", "--kinds"),
    "--max-size": ("--size", "--bound", "--cap", "--limit-size", "--size-limit", "--keep-storage"),
    "--min-free": ("--free", "--keep-free"),
    "--older-than": ("--age", "--max-age", "--days", "--before", "--until", "--older", "--unused-for"),
    "--keep-last": ("--keep", "--last"),
    "--by": ("--group-by", "--groupby"),
    "--output": ("--out", "--file"),
    "--quiet": ("--silent",),
    "--verbose": ("--debug", "--long", "--full", "--no-trunc"),
    "--json": ("--format", "--output-format"),
    "--repair": ("--fix",),
    "--subset": ("--sample", "--part"),
    "--all": ("--everything",),
}


def suggested_command(name: str, commands: Iterable[str]) -> str:
    """Return the end of the sentence about an unknown command: which command may have been meant."""
    return did_you_mean(nearest(name, commands, _by_synonym(_COMMANDS)))


def suggested_option(name: str, options: Iterable[str]) -> str:
    """Return the end of the sentence about an option that a command does not have."""
    return did_you_mean(nearest(name, options, _by_synonym(_OPTIONS)))


def _by_synonym(table: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {synonym: name for name, synonyms in table.items() for synonym in synonyms}
