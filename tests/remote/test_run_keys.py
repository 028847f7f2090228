"""What the last run of a command used is advice in a store, which the next push replaces."""

from jcache.remote.client import Remote
from jcache.remote.names import RUNS, parse_name, run_name
from jcache.remote.run_keys import read_run, write_run
from tests.helpers.entries import key

COMMAND = ("python", "train.py", "--steps", "3")


def test_what_was_written_is_read(remote: Remote) -> None:
    """The keys come back in their order, each once; another command has none; the latest writer wins."""
    assert read_run(remote, COMMAND) == ()
    write_run(remote, COMMAND, [key(2), key(1), key(2)])
    assert read_run(remote, COMMAND) == (key(2), key(1))
    assert read_run(remote, COMMAND[:-1]) == read_run(remote, ("python", "train.py --steps", "3")) == ()
    write_run(remote, COMMAND, [key(3)])
    assert read_run(remote, COMMAND) == (key(3),)


def test_what_is_no_key_is_left_out(remote: Remote) -> None:
    """Lines that are no keys, and lists that are too long, cost a program nothing."""
    text = "\n".join([key(1), "../../etc/passwd", "", "x" * 5000, key(2)]).encode() + b"\n\xff\n"
    remote.transport.put(run_name(COMMAND), text, {}, replace=True)
    assert read_run(remote, COMMAND) == (key(1), key(2))
    remote.transport.put(run_name(COMMAND), b"a" * (5 << 20), {}, replace=True)
    assert read_run(remote, COMMAND) == ()


def test_a_command_is_not_to_be_read_from_a_name() -> None:
    """The name of the object is a hash, whatever the command is, and belongs to no entry."""
    for command in (COMMAND, (), ("a\udcff", "ü")):
        name = run_name(command)
        assert name.startswith(RUNS) and len(name) == len(RUNS) + 64 and parse_name(name) is None
