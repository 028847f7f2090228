"""What is known of this machine and of the JAX installed on it, without importing JAX.

The versions come from the packages' metadata, CPU and GPUs from the kernel. What cannot be told is None or empty, and
never a guess: a login node has neither GPU nor, often, JAX.
"""

import atexit
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Thread
from typing import Any, Final, NamedTuple, TypeVar

from jcache.errors import DamagedEntry, InvalidValue
from jcache.formats.compression import Codec
from jcache.formats.envelope import pack_executable
from jcache.formats.inspection import inspect, xla_options
from jcache.jax_internals import child_versions
from jcache.jax_internals.child import INTERPRETER, interpreter
from jcache.shipping.archive.manifest import Host
from jcache.shipping.forecast import cpu_features, provenance
from jcache.verify.path_keys import Version, numbers

_CAPABILITIES: Final = (
    ("GB300", "10.3"), ("B300", "10.3"), ("GB200", "10.0"), ("B200", "10.0"), ("GH200", "9.0"), ("H200", "9.0"),
    ("H100", "9.0"), ("H800", "9.0"), ("H20", "9.0"), ("L40", "8.9"), ("L4", "8.9"), ("RTX 50", "12.0"),
    ("RTX 40", "8.9"), ("RTX 30", "8.6"), ("A100", "8.0"), ("A800", "8.0"), ("A30", "8.0"), ("A10", "8.6"),
    ("A16", "8.6"), ("A40", "8.6"), ("V100", "7.0"), ("T4", "7.5"), ("P100", "6.0"),
)  # fmt: skip
_NVIDIA_SMI_TIMEOUT_S: Final = 10.0
_PYTHON_TIMEOUT_S: Final = 60.0  # of a network file system that has gone to sleep
_FIRST_PYTHON_WITH_ZSTD: Final = (3, 14)
FIRST_JAX_WITH_PYTHON_ZSTD: Final = (0, 7, 1)  # the first that takes Python's own zstd
_JAXLIB_PROGRAM: Final = """
from jaxlib import xla_client
print(xla_client.CompileOptions().SerializeAsString().hex())
client = xla_client.make_cpu_client()
devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))
program = "module @m { func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } }"
executable = client.compile_and_load(program, devices, xla_client.CompileOptions())
print(client.serialize_executable(executable).hex())
"""


class Gpu(NamedTuple):
    """A GPU of this machine; its compute capability is None where nothing tells it."""

    model: str
    compute_capability: str | None = None


class Compression(NamedTuple):
    """How a JAX compresses what it stores, the only codec it then reads, and the word for it that it hashes."""

    codec: Codec
    word: str


class JaxlibFacts(NamedTuple):
    """What a jaxlib answers.

    Attributes:
        xla_options: numbers of XLA's options, as `Inspection.xla_options` has them; None if they are not known.
        cpu_features: of the CPU that it compiles for here, as `Inspection.cpu_features`; None if they are not known.
    """

    xla_options: int | None = None
    cpu_features: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What is installed for an interpreter.

    Attributes:
        interpreter: the interpreter that was looked at.
        python: its version.
        zstandard: whether it can import ``zstandard``.
        jax, jaxlib: versions; None where it has none.
        query_jaxlib: returns what its jaxlib answers, after half a second.
    """

    interpreter: str = ""
    python: Version = (3, 11)
    zstandard: bool = True
    jax: str | None = None
    jaxlib: str | None = None
    query_jaxlib: Callable[[], JaxlibFacts] = field(default=JaxlibFacts, compare=False)

    def compression(self, jax: str) -> Compression:
        """What a JAX of that version does with this interpreter.

        From 0.7.1 on it takes Python's own zstd where there is one, from 3.14 on, and hashes ``zlib`` all the same.
        """
        if self.python >= _FIRST_PYTHON_WITH_ZSTD and numbers(jax) >= FIRST_JAX_WITH_PYTHON_ZSTD:
            return Compression(Codec.ZSTD, "zlib")
        return Compression(Codec.ZSTD, "zstandard") if self.zstandard else Compression(Codec.ZLIB, "zlib")

    @property
    def zstd_word(self) -> str | None:
        """The word that it hashes for what it stores as zstd; None where it has no JAX, or stores none."""
        version = self.jax or self.jaxlib
        found = None if version is None else self.compression(version)
        return found.word if found is not None and found.codec is Codec.ZSTD else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Installation):
    """A machine, and what is installed for one of its interpreters.

    Attributes:
        platforms: that JAX can compute on here.
        cpu: model, as the system names it.
        cpu_features: LLVM's names of features that the CPU has (True) or has not (False); others are not known.
        gpus: in the order of their addresses.
        toolkit, cudnn: versions of CUDA's wheels.
    """

    platforms: frozenset[str] = frozenset({"cpu"})
    cpu: str | None = None
    cpu_features: Mapping[str, bool] = field(default_factory=dict)
    gpus: tuple[Gpu, ...] = ()
    toolkit: str | None = None
    cudnn: str | None = None

    @property
    def host(self) -> Host:
        """What an archive that is made here says of the machine."""
        return Host(cpu=self.cpu, gpus=tuple(gpu.model for gpu in self.gpus))


def this_installation(environment: Mapping[str, str]) -> Installation:
    """What is installed for the interpreter that JAX lives in.

    Args:
        environment: of the process; ``JCACHE_PYTHON`` in it names the interpreter, which else is the one we run in.

    Raises:
        InvalidValue: the interpreter that is named cannot be asked.
    """
    return Installation(**_installation_fields(_query_interpreter(environment), interpreter(environment)))


def this_machine(environment: Mapping[str, str]) -> Machine:
    """What is known of this machine and of the interpreter that JAX lives in.

    Args:
        environment: as of `this_installation`.

    Raises:
        InvalidValue: the interpreter that is named cannot be asked.
    """
    found = _query_interpreter(environment)
    versions: dict[str, str] = found["versions"]
    host = provenance.describe_host()
    gpus = _find_gpus(host.gpus, environment)
    described = _installation_fields(found, interpreter(environment))
    if described["jaxlib"] is not None:
        described["query_jaxlib"] = _in_background(described["query_jaxlib"])
    return Machine(
        **described,
        platforms=_find_platforms(versions, nvidia=bool(gpus)),
        cpu=host.cpu,
        cpu_features=cpu_features.kernel_features(platform.machine().lower(), platform.release()),
        gpus=gpus,
        toolkit=_newest_version(versions, "nvidia-cuda-runtime"),
        cudnn=_newest_version(versions, "nvidia-cudnn"),
    )


def _query_interpreter(environment: Mapping[str, str]) -> dict[str, Any]:
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


def _output_of(python: str, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """What an interpreter prints; it ends with this process at the latest."""
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


def _installation_fields(found: Mapping[str, Any], python: str) -> dict[str, Any]:
    versions: dict[str, str] = found["versions"]
    return {
        "interpreter": str(found["executable"]),
        "python": tuple(found["python"]),
        "zstandard": bool(found["zstandard"]),
        "jax": versions.get("jax"),
        "jaxlib": versions["jaxlib"].partition("+")[0] if "jaxlib" in versions else None,
        "query_jaxlib": cache(partial(_query_jaxlib, python)),
    }


_T = TypeVar("_T")


def _in_background(ask: Callable[[], _T]) -> Callable[[], _T]:
    """Asks at once, beside what else there is to do, and gives the answer when it is wanted."""
    answer: Future[_T] = Future()

    def do() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001  whoever wants the answer has it
            answer.set_exception(error)

    Thread(target=do, daemon=True).start()  # who ends before it answers does not wait
    return answer.result


def _query_jaxlib(python: str) -> JaxlibFacts:
    """Ask an interpreter's jaxlib, which is imported there; it takes half a second.

    Its executables name features of the CPU since jaxlib 0.8. Where compiling fails, as in older ones, which have other
    functions, the options are known all the same.
    """
    env = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")}
    env["OPENBLAS_NUM_THREADS"] = "1"  # numpy's; they would wait, busily, for work that never comes
    try:
        said = _output_of(python, "-c", _JAXLIB_PROGRAM, env=env)
    except subprocess.CalledProcessError as error:
        said = error.output
    except (OSError, subprocess.SubprocessError):
        return JaxlibFacts()
    with suppress(ValueError, DamagedEntry):
        options, executable, *_ = [bytes.fromhex(line) for line in said.splitlines()] + [b"", b""]
        features = inspect(pack_executable(executable, 0, Codec.ZLIB)).cpu_features if executable else None
        return JaxlibFacts(xla_options(options) if options else None, features)
    return JaxlibFacts()


def _newest_version(versions: Mapping[str, str], prefix: str) -> str | None:
    """Of wheels for several CUDA versions, which can be installed side by side."""
    found = [version for name, version in versions.items() if name.startswith(prefix)]
    return max(found, key=numbers, default=None)


def _find_platforms(versions: Mapping[str, str], *, nvidia: bool) -> frozenset[str]:
    in_jaxlib = versions.get("jaxlib", "").partition("+")[2]  # "cuda12.cudnn89": up to 0.4.25 it was one wheel
    plugins = " ".join(versions)
    found = {"cpu"}
    if nvidia and ("jax-cuda" in plugins or "cuda" in in_jaxlib):
        found.add("cuda")
    if os.path.exists("/dev/kfd") and ("jax-rocm" in plugins or "rocm" in in_jaxlib):
        found.add("rocm")
    if "libtpu" in plugins and any(os.path.exists(path) for path in ("/dev/accel0", "/dev/vfio/0")):
        found.add("tpu")
    return frozenset(found)


def _find_gpus(models: tuple[str, ...], environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """NVIDIA's GPUs of these models; its own tool, which takes a second, is asked for what the table does not have."""
    found = tuple(Gpu(model, _capability_in_table(model)) for model in models)
    if found and all(gpu.compute_capability for gpu in found):
        return found
    if not found and not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg"))):  # dxg: under Windows
        return ()
    return _query_nvidia_smi(environment) or found


def _query_nvidia_smi(environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if program is None:
        return ()
    command = [program, "--query-gpu=name,compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_NVIDIA_SMI_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()
    rows = [line.rpartition(",") for line in done.stdout.splitlines()]
    return tuple(Gpu(name.strip(), value.strip() or None) for name, comma, value in rows if comma)


def _capability_in_table(model: str) -> str | None:
    return next((value for name, value in _CAPABILITIES if re.search(rf"\b{name}", model)), None)
