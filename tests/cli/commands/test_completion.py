"""Completion: the answers of `jcache completion`, the scripts that ask for them, and the shells that run those."""

import fcntl
import os
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jcache.admin.fields import FIELDS
from jcache.admin.filters import parse_filter, parse_sort
from jcache.cli.app import COMMANDS
from jcache.cli.commands.completion import SHELLS, answer, script
from jcache.layout import Kind
from tests.helpers.terminals import open_terminal
from tests.helpers.waiting import LIMIT_S

JCACHE = Path(sys.executable).with_name("jcache")
SCRIPTS = Path(__file__).parents[3] / "completions"
FILES = {"bash": "jcache.bash", "zsh": "_jcache", "fish": "jcache.fish", "powershell": "jcache.ps1"}

STEP = "jit_step-" + "1" * 64
SUM = "jit_sum-" + "2" * 64
TRAIN = "jit_train-" + "3" * 64
TRACE = "trace_loss-" + "4" * 64
KEYS = [STEP, SUM, TRAIN]


def values(*words: str) -> list[str]:
    """The candidates for the last word, without their help."""
    head, *lines = answer(words)
    assert head in ("words", "beginnings")
    return [line.partition("\t")[0] for line in lines]


@pytest.fixture(autouse=True)
def _no_root_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A plain JAX directory with three executables, a trace and a directory that is named like an entry."""
    root = tmp_path / "cache"
    (root / "traces-v1").mkdir(parents=True)
    for key in KEYS:
        (root / f"{key}-cache").write_bytes(b"x")
    (root / "traces-v1" / f"{TRACE}-cache").write_bytes(b"x")
    (root / ("jit_strange-" + "5" * 64 + "-cache")).mkdir()
    return root


class TestAnswers:
    def test_all_commands(self) -> None:
        """An empty first word is completed to every command, each with a line of help."""
        assert values("") == list(COMMANDS)
        assert all("\t" in line for line in answer([""])[1:])

    def test_commands_by_their_beginning(self) -> None:
        """A beginning is completed to the commands that begin with it."""
        assert values("p") == ["prune", "pin", "push", "pull"]

    def test_options(self) -> None:
        """A dash is completed to the options of the command that were not given yet."""
        assert {"--root", "--kind", "--filter", "--sort", "--json"} <= set(values("ls", "--"))
        assert "--root" not in values("ls", "--root", "R", "--")
        assert values("ls", "--li") == ["--limit"]

    @pytest.mark.parametrize(
        "words", [("ls", "--kind"), ("clear",), ("dir",), ("du", "--kind"), ("clear", "--root", "R", "--yes")]
    )
    def test_kinds(self, words: tuple[str, ...]) -> None:
        """Kinds are offered wherever one is wanted."""
        assert values(*words, "") == list(Kind)
        assert values(*words, "ex") == ["executables"]

    def test_choices(self) -> None:
        """Shells, groupings and orders are offered where one of them is wanted."""
        assert values("completion", "") == list(SHELLS)
        assert values("env", "--shell", "") == ["sh", "fish", "powershell"]
        assert values("du", "--by", "j") == ["jaxlib"]
        assert values("prune", "--order", "") == ["lru", "cost"]

    def test_sorts(self) -> None:
        """Each order that is offered can be parsed, and each field is offered with both directions."""
        assert values("ls", "--sort", "si") == ["size", "size:asc", "size:desc"]
        assert all(parse_sort(text) for text in values("ls", "--sort", ""))

    def test_fields_then_operators(self) -> None:
        """A filter is completed to fields, and to the operators of the field once only one is left."""
        assert values("ls", "--filter", "") == list(FIELDS)
        assert values("ls", "--filter", "s") == ["size", "seconds"]
        assert values("ls", "--filter", "si") == ["size!=", "size>=", "size<=", "size=", "size>", "size<"]
        assert values("ls", "si") == values("rm", "--filter", "si") == values("ls", "--filter", "si")
        assert values("ls", "--filter", "name") == ["name!=", "name=", "name~"]
        assert values("ls", "--filter", "size>") == ["size>=", "size>"]
        assert values("ls", "--filter", "size>1") == values("ls", "--filter", "nonsense") == []
        assert values("ls", "--columns", "key,si") == ["key,size"] and "key,key" not in values(
            "ls", "--columns", "key,"
        )

    def test_operators_want_a_value_behind_them(self) -> None:
        """A candidate that ends in an operator is marked as incomplete; a field and a whole filter are not."""
        assert answer(["ls", "--filter", "si"])[0] == "beginnings"
        assert answer(["ls", "--filter", "s"])[0] == answer(["ls", "--filter", "kind=g"])[0] == "words"

    def test_kinds_in_filters(self) -> None:
        """The kinds are offered behind a filter's ``kind=``, and every one makes a filter."""
        assert values("ls", "--filter", "kind!=t") == ["kind!=traces"]
        assert [parse_filter(text).value for text in values("ls", "--filter", "kind=")] == list(Kind)

    def test_option_and_value_in_one_word(self) -> None:
        """``--kind=ex`` is completed as a whole word, as is any option that carries its value."""
        assert values("ls", "--kind=ex") == ["--kind=executables"]
        assert values("ls", "--filter=kind=g") == ["--filter=kind=graphs"]
        assert answer(["show", "--root=~/"]) == ["directories"]

    @pytest.mark.parametrize("command", ["show", "pin", "unpin", "rm"])
    def test_keys(self, command: str, root: Path) -> None:
        """Keys of the chosen root are offered, whatever their kind, and nothing but entries."""
        assert values(command, "--root", str(root), "") == [*KEYS, TRACE]
        assert values(command, "--root", str(root), "jit_s") == [STEP, SUM]
        assert values(command, f"--root={root}", "jit_t") == [TRAIN]

    def test_keys_already_given(self, root: Path) -> None:
        """A key that was given is not offered again."""
        assert values("pin", "--root", str(root), STEP, "jit_") == [SUM, TRAIN]

    @pytest.mark.parametrize("name", ["JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR"])
    def test_keys_of_the_root_in_the_environment(self, name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without --root, keys are those of the root that the environment names."""
        monkeypatch.setenv(name, str(root))
        assert values("show", "jit_t") == [TRAIN]

    def test_root_as_it_is_written(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A root is found even if it is written with ~ or a variable, which the shell has not expanded yet."""
        monkeypatch.setenv("HOME", str(root.parent))
        assert values("show", "--root", "~/cache", "jit_t") == [TRAIN]
        assert values("show", "--root", "$HOME/cache", "jit_t") == [TRAIN]

    def test_many_keys(self, root: Path) -> None:
        """Of many keys, 200 are offered, and these have the same common beginning as all keys."""
        for i in range(300):
            (root / f"jit_many-{i:064x}-cache").touch()
        found = values("show", "--root", str(root), "jit_")
        assert len(found) == 200
        assert {key[:5] for key in found} == {"jit_m", "jit_t"}

    def test_paths_are_left_to_the_shell(self) -> None:
        """For a directory or a file the answer says so, and the shell completes it."""
        assert answer(["info", "--root", ""]) == answer(["run", "--root", "/t"]) == ["directories"]
        assert answer(["run", "--report", ""]) == ["files"]

    def test_programs_are_left_to_the_shell(self) -> None:
        """After `jcache run`, the answer says how many words precede the program, whatever words follow."""
        assert answer(["run", ""]) == ["command 2"]
        assert answer(["run", "--", "py"]) == ["command 3"]
        assert answer(["run", "--root", "R", "-q", "--", "python", "-"]) == ["command 6"]
        assert answer(["run", "python", "--root", ""]) == ["command 2"]
        assert values("run", "--rep") == ["--report"]

    @pytest.mark.parametrize(
        "words",
        [
            ("nonsense", "x"),
            ("info", "--nonsense", ""),
            ("ls", "--limit", ""),
            ("show", "--json=x"),
            ("--version", "x"),
        ],
    )
    def test_nothing_to_say(self, words: tuple[str, ...]) -> None:
        """An unknown command or option, or a value without known candidates, gets no candidate."""
        assert answer(words) == ["words"]

    @pytest.mark.parametrize("case", ["missing", "file", "empty", "foreign", "remote", "unreadable", "looping"])
    def test_no_root(self, case: str, tmp_path: Path) -> None:
        """A root that is none, or that cannot be read, gives no keys, no message and exit code 0."""
        path = tmp_path / case
        match case:
            case "file":
                path.touch()
            case "empty" | "unreadable":
                path.mkdir(0o000 if case == "unreadable" else 0o755)
            case "foreign":
                path.mkdir()
                (path / "photo.png").touch()
            case "looping":
                path.symlink_to(path)
        name = "s3://bucket" if case == "remote" else str(path)
        result = subprocess.run(
            [JCACHE, "completion", "zsh", "--", "show", "--root", name, "jit_"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert (result.returncode, result.stdout, result.stderr) == (0, "words\n", "")

    def test_reads_nothing_but_names(self, root: Path) -> None:
        """Completing keys imports neither JAX nor numpy, nor Rich nor SQLite, and leaves the root as it is."""
        before = sorted(root.rglob("*"))
        code = (
            "import sys; from jcache.cli.commands.completion import answer; "
            f"assert len(answer(['show', '--root', {str(root)!r}, ''])) == 5; answer(['']); answer(['ls', '--']); "
            "print([m for m in ('jax', 'jaxlib', 'numpy', 'rich') if m in sys.modules])"
        )
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert (result.stdout, result.stderr) == ("[]\n", "")
        assert sorted(root.rglob("*")) == before

    def test_quotes(self, root: Path) -> None:
        """Words from bash keep their quotes, which are removed; the last quote may be open."""
        arguments = ["completion", "bash", "--", "show", "--root", f'"{root}"', "'jit_tr"]
        result = subprocess.run([JCACHE, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        assert result.stdout.splitlines() == ["words", TRAIN]

    def test_powershell_marks_its_last_word(self) -> None:
        """Words from PowerShell end in one with a mark, as it passes on no empty word."""
        arguments = ["completion", "powershell", "--", "ls", "--kind", "+"]
        result = subprocess.run([JCACHE, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        assert result.stdout.splitlines() == ["words", *Kind]


class TestScripts:
    @pytest.mark.parametrize("shell", SHELLS)
    def test_is_the_one_in_the_repository(self, shell: str) -> None:
        """`completions/` holds the output of `jcache completion`. No machine runs PowerShell's script, so
        that is only compared.
        """
        result = subprocess.run(
            [JCACHE, "completion", shell], capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
        assert result.stdout == script(shell)
        assert (SCRIPTS / FILES[shell]).read_text() == result.stdout, (
            f"regenerate it: jcache completion {shell} > completions/{FILES[shell]}"
        )

    def test_other_shells(self) -> None:
        """A shell without a script is refused, with those that have one named."""
        result = subprocess.run(
            [JCACHE, "completion", "tcsh"], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert result.returncode == 2
        assert "bash, zsh, fish, powershell" in result.stderr


# -- the real shells

_ZSH = "setopt no_beep no_auto_remove_slash; unset zle_bracketed_paste"
SETTINGS = {
    "bash": "bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; bind 'set show-all-if-ambiguous on'; "
    'source "$SCRIPTS/jcache.bash"',
    "zsh autoload": f"{_ZSH}; fpath=($SCRIPTS $fpath); autoload -Uz compinit; compinit -u -D",
    "zsh eval": f'{_ZSH}; autoload -Uz compinit; compinit -u -D; source "$SCRIPTS/_jcache"',
}
PROGRAMS = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
# Makes the pty the terminal of the session and turns into the shell.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")


def environment(home: Path) -> dict[str, str]:
    path = f"{JCACHE.parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8", "SCRIPTS": str(SCRIPTS)}


class Terminal:
    """An interactive shell in a terminal."""

    def __init__(self, settings: str, home: Path) -> None:
        self._fd, inner = open_terminal()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 1000, 0, 0))
        self.shell = settings.split()[0]
        command = [sys.executable, "-c", TAKE_TERMINAL, *PROGRAMS[self.shell]]
        self._process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=environment(home), cwd=home, start_new_session=True
        )
        os.close(inner)
        self._write(SETTINGS[settings] + "; PS1='$ '; said() { printf '<%s>' \"$@\"; echo ' SA''ID'; }\n")
        self._write("said ready\n")
        self._read_until("<ready> SAID\r\n")

    def words(self, line: str, close: str = "") -> tuple[list[str], str]:
        """The words of a line, as the shell has them after a TAB at its end, and all that appeared."""
        self._write(line + "\t")
        self._write(close + "\x01said \n")  # to the beginning of the line, and run it as arguments of `said`
        seen = self._read_until(" SAID\r\n")
        return seen.rpartition("\r\n<")[2].removesuffix("> SAID\r\n").split("><"), seen

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)

    def _write(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def _read_until(self, end: str) -> str:
        deadline = time.monotonic() + LIMIT_S
        seen = b""
        while end not in seen.decode(errors="replace"):
            ready, _, _ = select.select([self._fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"the shell said only {seen!r}"
            seen += os.read(self._fd, 65536)
        text = seen.decode(errors="replace")
        return text[: text.index(end) + len(end)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory with a root, whose name has a space in it, a directory and a file."""
    home = tmp_path_factory.mktemp("home")
    (home / "other").mkdir()
    (home / "my root").mkdir()
    (home / "train.py").touch()
    for key in KEYS:
        (home / "my root" / f"{key}-cache").write_bytes(b"x")
    return home


@pytest.fixture(scope="module", params=list(SETTINGS))
def terminal(request: pytest.FixtureRequest, home: Path) -> Iterator[Terminal]:
    """bash and zsh with the script sourced, and zsh with the script in its path of functions."""
    need(request.param.split()[0])
    terminal = Terminal(request.param, home)
    yield terminal
    terminal.close()


@pytest.mark.shells
class TestInTerminals:
    @pytest.mark.full
    @pytest.mark.parametrize(
        ("line", "completed"),
        [
            ("jcache sho", ["show"]),
            (f"{JCACHE} sho", ["show"]),
            ("jcache ls --li", ["--limit"]),
            ("jcache clear ex", ["executables"]),
            ("jcache ls --kind tr", ["--kind", "traces"]),
            ("jcache ls --kind=tr", ["--kind=traces"]),
            ("jcache ls --filter si", ["--filter", "size"]),
            ("jcache ls --filter=ki", ["--filter=kind"]),
            ("jcache ls --filter kind\\!", ["--filter", "kind!="]),
            ("jcache ls --filter kind=gr", ["--filter", "kind=graphs"]),
            ("jcache ls --sort size:d", ["--sort", "size:desc"]),
            ("jcache show --root ~/my\\ root jit_t", ["--root", "~/my root", TRAIN]),
            ("jcache show --root=~/my\\ root jit_t", ["--root=~/my root", TRAIN]),
            ("jcache show --root 'my root' jit_t", ["--root", "my root", TRAIN]),
            ('jcache pin --root "$HOME/my root" jit_t', ["--root", "~/my root", TRAIN]),
            ("jcache show --root /nowhere jit_", ["--root", "/nowhere", "jit_"]),
            ("jcache show tra", ["tra"]),
            ("jcache ls --limit tra", ["--limit", "tra"]),
            ("jcache info --root ot", ["--root", "other/"]),
            ("jcache info --root my", ["--root", "my root/"]),
            ("jcache info --root ~/my", ["--root", "~/my root/"]),
            ("jcache info --root=ot", ["--root=other/"]),
            ("jcache run --report tra", ["--report", "train.py"]),
            ("jcache run --report=tra", ["--report=train.py"]),
            ("jcache run -- basenam", ["--", "basename"]),
            ("jcache run basena", ["basename"]),
            ("jcache run --root other -- cat tra", ["--root", "other", "--", "cat", "train.py"]),
        ],
    )
    def test_completes(self, line: str, completed: list[str], terminal: Terminal, home: Path) -> None:
        """TAB completes the word before the cursor, and changes nothing if there is no candidate."""
        words, seen = terminal.words(line)
        assert [word.replace(str(home), "~") for word in words[-len(completed) :]] == completed
        assert "Traceback" not in seen
        assert "rror" not in seen

    def test_within_quotes(self, terminal: Terminal) -> None:
        """A quoted filter is completed within its quotes, where it needs no backslash and gets no space."""
        assert terminal.words("jcache ls --filter 'si", close=">1'")[0][-1] == "size>1"
        if terminal.shell == "bash":  # zsh drops a quote that stands within a word
            assert terminal.words("jcache ls --filter='si", close=">1'")[0][-1] == "--filter=size>1"

    @pytest.mark.full
    def test_no_space_behind_a_field(self, terminal: Terminal) -> None:
        """A field is completed without a space behind it, and a key with one."""
        assert terminal.words("jcache ls --filter si", close="=1")[0][-1] == "size=1"
        assert terminal.words("jcache ls --filter kind\\!", close="graphs")[0][-1] == "kind!=graphs"
        assert terminal.words("jcache show --root my\\ root jit_t", close="-q")[0][-2:] == [TRAIN, "-q"]

    def test_lists(self, terminal: Terminal) -> None:
        """If several words match, TAB inserts their common beginning."""
        assert terminal.words("jcache show --root my\\ root j")[0][-1] == "jit_"


@pytest.mark.shells
class TestInFish:
    @pytest.mark.full
    @pytest.mark.parametrize(
        ("line", "completed"),
        [
            ("jcache sho", ["show"]),
            (f"{JCACHE} sho", ["show"]),
            ("jcache ", list(COMMANDS)),
            ("jcache ls --li", ["--limit"]),
            ("jcache clear ex", ["executables"]),
            ("jcache ls --kind ", list(Kind)),
            ("jcache ls --kind=tr", ["--kind=traces"]),
            ("jcache ls --filter si", ["size!=", "size>=", "size<=", "size=", "size>", "size<"]),
            ("jcache ls --filter 'size>", ["size>=", "size>"]),
            ("jcache ls --filter=kind=gr", ["--filter=kind=graphs"]),
            ("jcache ls --sort size:d", ["size:desc"]),
            ("jcache show --root ~/my\\ root jit_s", [STEP, SUM]),
            ("jcache show --root=~/my\\ root jit_t", [TRAIN]),
            ("jcache show --root 'my root' jit_t", [TRAIN]),
            ("jcache show --root /nowhere jit_", []),
            ("jcache show tra", []),
            ("jcache info --root ", ["my root/", "other/"]),
            ("jcache info --root ~/my", ["~/my root/"]),
            ("jcache info --root=~/ot", ["--root=~/other/"]),
            ("jcache run --report tra", ["train.py"]),
            ("jcache run -- basenam", ["basename"]),
            ("jcache run --root other -- cat tra", ["train.py"]),
        ],
    )
    def test_completes(self, line: str, completed: list[str], home: Path) -> None:
        """fish offers the words that can stand at the end of the line, and nothing without candidates."""
        need("fish")
        result = subprocess.run(
            ["fish", "--no-config", "-c", 'source $SCRIPTS/jcache.fish; complete -C "$argv[1]"', line],
            env=environment(home),
            cwd=home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert result.stderr == ""
        assert [text.partition("\t")[0] for text in result.stdout.splitlines()] == completed
