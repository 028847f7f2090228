"""The JAX that is installed for an interpreter, learnt without importing it here.

Versions come from the packages' metadata. A child process asks jaxlib for facts that only jaxlib knows. Unknown values
are None and never guessed.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, NamedTuple

from jcache.errors import DamagedEntry, InvalidValue
from jcache.formats.compression import Codec
from jcache.formats.debug_options import xla_options
from jcache.formats.executable import pack_executable
from jcache.formats.inspection import inspect
from jcache.jax_internals import child_versions
from jcache.jax_internals.child import INTERPRETER, interpreter
from jcache.jax_internals.path_keys import version_numbers
from jcache.jax_internals.versions import ZSTD_OF_PYTHON
from jcache.verify.path_keys import Version

_PYTHON_TIMEOUT_S: Final = 60.0  # a network file system may have to wake up
_FIRST_PYTHON_WITH_ZSTD: Final = (3, 14)
_JAXLIB_PROGRAM: Final = """
from jaxlib import xla_client
print(xla_client.CompileOptions().SerializeAsString().hex())
client = xla_client.make_cpu_client()
devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
program = "module @m { func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } }"
executable = client.compile_and_load(program, devices, xla_client.CompileOptions())
print(client.serialize_executable(executable).hex())
"""


class Compression(NamedTuple):
    """The codec in which a JAX stores entries, the only one it then reads, and the word for it that it hashes."""

    codec: Codec
    word: str


class JaxlibFacts(NamedTuple):
    """Facts that only a jaxlib itself knows.

    Attributes:
        xla_options: numbers of XLA's options, as in `Inspection.xla_options`; None if they are not known.
        cpu_features: features of the CPU that it compiles for here, as in `Inspection.cpu_features`; None if they are
            not known.
    """

    xla_options: int | None = None
    cpu_features: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The packages that are installed for an interpreter.

    Attributes:
        interpreter: path of the interpreter.
        python: version of Python.
        zstandard: whether it can import ``zstandard``.
        jax, jaxlib: versions; None where it has none.
        query_jaxlib: returns the facts that its jaxlib knows, after half a second.
    """

    interpreter: str = ""
    python: Version = (3, 11)
    zstandard: bool = True
    jax: str | None = None
    jaxlib: str | None = None
    query_jaxlib: Callable[[], JaxlibFacts] = field(default=JaxlibFacts, compare=False)

    def compression(self, jax: str) -> Compression:
        """Return how a JAX of that version compresses with this interpreter.

        From 0.7.1 on it uses Python's own zstd, which Python has from 3.14 on, and still hashes ``zlib``.
        """
        if self.python >= _FIRST_PYTHON_WITH_ZSTD and version_numbers(jax) >= ZSTD_OF_PYTHON:
            return Compression(Codec.ZSTD, "zlib")
        return Compression(Codec.ZSTD, "zstandard") if self.zstandard else Compression(Codec.ZLIB, "zlib")

    @property
    def zstd_word(self) -> str | None:
        """The word that its JAX hashes for entries in zstd; None where there is no JAX, or it stores no zstd."""
        version = self.jax or self.jaxlib
        found = None if version is None else self.compression(version)
        return found.word if found is not None and found.codec is Codec.ZSTD else None


def this_installation(environment: Mapping[str, str]) -> Installation:
    """Return what is installed for the interpreter that has JAX.

    Args:
        environment: environment of the process; ``JCACHE_PYTHON`` names the interpreter, by default the running one.

    Raises:
        InvalidValue: the interpreter that is named does not answer.
    """
    return Installation(**installation_fields(query_interpreter(environment), interpreter(environment)))


def query_interpreter(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the interpreter's answer: ``python``, ``executable``, ``zstandard`` and the packages' ``versions``.

    Args:
        environment: as in `this_installation`.

    Raises:
        InvalidValue: the interpreter that is named does not answer.
    """
    python = interpreter(environment)
    if python == sys.executable:
        return child_versions.look()
    reason = "it does not answer as one"
    try:
        found = json.loads(_output_of(python, child_versions.__file__))
        if isinstance(found, dict) and found.keys() >= {"python", "executable", "zstandard", "versions"}:
            return found
    except subprocess.CalledProcessError as error:
        reason = f"it ended with exit code {error.returncode}"
    except OSError as error:
        reason = error.strerror or str(error)
    except (subprocess.SubprocessError, ValueError):
        pass
    raise InvalidValue(
        f"{INTERPRETER} is {python}, which is no Python that can be asked for its JAX ({reason}): name the interpreter "
        f"that has JAX, or `unset {INTERPRETER}` for jcache's own."
    )


def installation_fields(found: Mapping[str, Any], python: str) -> dict[str, Any]:
    """Return the fields of an `Installation`.

    Args:
        found: the answer of `query_interpreter`.
        python: path of the interpreter.
    """
    versions: dict[str, str] = found["versions"]
    return {
        "interpreter": str(found["executable"]),
        "python": tuple(found["python"]),
        "zstandard": bool(found["zstandard"]),
        "jax": versions.get("jax"),
        "jaxlib": versions["jaxlib"].partition("+")[0] if "jaxlib" in versions else None,
        "query_jaxlib": cache(partial(_query_jaxlib, python)),
    }


def _output_of(python: str, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Return what an interpreter prints; kill it if this process ends first."""
    pipe, command = subprocess.PIPE, [python, *arguments]
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
        atexit.register(process.kill)
        try:
            out, errors = process.communicate(timeout=_PYTHON_TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
        finally:
            atexit.unregister(process.kill)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, out, errors)
    return out


def _query_jaxlib(python: str) -> JaxlibFacts:
    """Ask an interpreter's jaxlib, which is imported there; this takes half a second.

    jaxlib's executables name features of the CPU from 0.8 on. Older versions have other functions, so that compiling
    fails there; XLA's options are known all the same.
    """
    env = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")}
    env["OPENBLAS_NUM_THREADS"] = "1"  # numpy's threads would busily wait for work that never comes
    try:
        printed = _output_of(python, "-c", _JAXLIB_PROGRAM, env=env)
    except subprocess.CalledProcessError as error:
        printed = error.output
    except (OSError, subprocess.SubprocessError):
        return JaxlibFacts()
    with suppress(ValueError, DamagedEntry):
        options, executable, *_ = [bytes.fromhex(line) for line in printed.splitlines()] + [b"", b""]
        features = inspect(pack_executable(executable, 0, Codec.ZLIB)).cpu_features if executable else None
        return JaxlibFacts(xla_options(options) if options else None, features)
    return JaxlibFacts()
