"""A root, and the paths of what lies in it."""

from pathlib import Path
from typing import Any, NamedTuple

from jcache.layout.layouts import JAX, JCACHE, Layout, below, file_name_of
from jcache.layout.names import PINS_NAME, STATE_NAME, Kind


class _RootFields(NamedTuple):
    path: Path
    layout: Layout
    state_path: Path | None


class Root(_RootFields):
    """A directory that jcache administers.

    Args:
        path: absolute, symbolic links in it kept as given (JAX hashes the string of a directory's path).
        plain: whether it is a plain JAX directory, whose executables lie in it directly.
        adapter: the layout of another program's directory; None for JAX's and jcache's own.
        state_path: the directory for jcache's own files, if it is not in the root itself.

    Attributes:
        layout: the names and places of the entries.
    """

    __slots__ = ()

    def __new__(
        cls,
        path: Path,
        plain: bool,  # noqa: FBT001  the constructor is public
        adapter: Layout | None = None,
        state_path: Path | None = None,
    ) -> "Root":
        return super().__new__(cls, path, adapter or (JAX if plain else JCACHE), state_path)

    def __getnewargs__(self) -> tuple[Any, ...]:  # the arguments of `__new__`, for pickle
        return self.path, self.plain, self.adapter, self.state_path

    @property
    def plain(self) -> bool:
        """Whether the executables lie in the directory itself."""
        return self.layout.plain

    @property
    def adapter(self) -> Any:  # noqa: ANN401  an `Adapter | None` of a room that this module may not import
        """The adapter of another program's directory; None for JAX's and jcache's own."""
        return None if self.layout.follows_jax else self.layout

    @property
    def title(self) -> str:
        """Name of the root in sentences."""
        return self.layout.title

    def directory(self, kind: Kind) -> Path:
        """Return the directory of a kind; it need not exist. Names of files are relative to it."""
        return self.layout.directory(self.path, kind)

    def file_name(self, kind: Kind, key: str, *, legacy: bool = False) -> str:
        """Return the name of an entry's file, relative to the directory of its kind.

        Raises:
            InvalidValue: no entry of this root can have the key.
        """
        return file_name_of(kind, key, legacy=legacy, adapter=self.layout)

    def place(self, kind: Kind, key: str, *, legacy: bool = False) -> Path:
        """Return the path of an entry's file, which need not exist; raise as `file_name`."""
        return self.directory(kind) / self.file_name(kind, key, legacy=legacy)

    def locks(self, kind: Kind) -> Path:
        """Return the directory of the lock that guards the entries of a kind."""
        return self.directory(kind) if self.layout.follows_jax else self.state

    @property
    def state(self) -> Path:
        """Directory of jcache itself; deleting it loses history and digests, never an entry."""
        return self.state_path or below(self.path, STATE_NAME)

    @property
    def ledger(self) -> Path:
        return below(self.state, "ledger.sqlite3")

    @property
    def settings(self) -> Path:
        """The path of the settings that are stored with the root."""
        return below(self.state, "jcache.toml")

    @property
    def runs(self) -> Path:
        return below(self.state, "runs")

    @property
    def records(self) -> Path:
        """What keys of recorded runs were made of, and the secret of the digests; see `jcache.store.run_records`."""
        return below(self.state, "records")

    @property
    def modules(self) -> Path:
        """Lowered modules of executables that were missed, each by its hash; see `jcache.store.run_records`."""
        return below(self.state, "modules")

    @property
    def building(self) -> Path:
        """Lock files of those who are building something, see `jcache.store.build_lock`."""
        return below(self.state, "building")

    @property
    def handed(self) -> Path:
        """Payloads of graphs that other code reads as files, each by its key, see `jcache.graphs.file_codec`."""
        return below(self.state, "handed")

    @property
    def verdicts(self) -> Path:
        """Hints about calls: faster traced than looked up, or the files that they need; see `jcache.traces.hints`."""
        return below(self.state, "verdicts")

    @property
    def worlds(self) -> Path:
        """In which worlds traces and graphs were compared; see `jcache.runtime.worlds`."""
        return below(self.state, "worlds")

    @property
    def pins(self) -> Path:
        """Empty files that say what is pinned, see `jcache.store.pins`; they go where the entries go."""
        return below(below(self.path, STATE_NAME), PINS_NAME)

    @property
    def unbounded_mark(self) -> Path:
        """Says that the executables' lock file is only jcache's: no JAX has put entries there under a bound."""
        return below(self.state, "unbounded")

    @property
    def moved_mark(self) -> Path:
        """Written when jcache had to move access times, see `jcache.store.access_times`."""
        return below(self.state, "moved")

    @property
    def quarantine(self) -> Path:
        """Directory of damaged entries."""
        return below(self.state, "quarantine")
