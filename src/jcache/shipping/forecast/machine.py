"""The machine that runs this process and the JAX on it, learnt without importing JAX.

CPU and GPUs come from the kernel and the driver. Unknown values are None or empty, and never guessed: a login node has
no GPU and often no JAX.
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from typing import Final, NamedTuple, TypeVar

from jcache.jax_internals.child import interpreter
from jcache.jax_internals.path_keys import version_numbers
from jcache.shipping.archive.manifest import Host
from jcache.shipping.forecast import cpu_features, provenance
from jcache.shipping.forecast.installation import Installation, installation_fields, query_interpreter

_CAPABILITIES: Final = (
    ("GB300", "10.3"), ("B300", "10.3"), ("GB200", "10.0"), ("B200", "10.0"), ("GH200", "9.0"), ("H200", "9.0"),
    ("H100", "9.0"), ("H800", "9.0"), ("H20", "9.0"), ("L40", "8.9"), ("L4", "8.9"), ("RTX 50", "12.0"),
    ("RTX 40", "8.9"), ("RTX 30", "8.6"), ("A100", "8.0"), ("A800", "8.0"), ("A30", "8.0"), ("A10", "8.6"),
    ("A16", "8.6"), ("A40", "8.6"), ("V100", "7.0"), ("T4", "7.5"), ("P100", "6.0"),
)  # fmt: skip
_NVIDIA_SMI_TIMEOUT_S: Final = 10.0


class Gpu(NamedTuple):
    """A GPU of this machine; its compute capability is None where it is not known."""

    model: str
    compute_capability: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Installation):
    """A machine, and what is installed for one of its interpreters.

    Attributes:
        platforms: platforms that JAX can compute on here.
        cpu: model, as the system names it.
        cpu_features: LLVM's names of features, and whether the CPU has them; absent ones are not known.
        gpus: GPUs, in the order of their addresses.
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
        """The machine as archives that are made here describe it."""
        return Host(cpu=self.cpu, gpus=tuple(gpu.model for gpu in self.gpus))


def this_machine(environment: Mapping[str, str]) -> Machine:
    """Return this machine and what is installed for the interpreter that has JAX.

    Args:
        environment: as in `this_installation`.

    Raises:
        InvalidValue: the interpreter that is named does not answer.
    """
    found = query_interpreter(environment)
    versions: dict[str, str] = found["versions"]
    host = provenance.describe_host()
    gpus = _find_gpus(host.gpus, environment)
    fields = installation_fields(found, interpreter(environment))
    if fields["jaxlib"] is not None:
        fields["query_jaxlib"] = _in_background(fields["query_jaxlib"])
    return Machine(
        **fields,
        platforms=_find_platforms(versions, nvidia=bool(gpus)),
        cpu=host.cpu,
        cpu_features=cpu_features.kernel_features(platform.machine().lower(), platform.release()),
        gpus=gpus,
        toolkit=_newest_version(versions, "nvidia-cuda-runtime"),
        cudnn=_newest_version(versions, "nvidia-cudnn"),
    )


_T = TypeVar("_T")


def _in_background(query: Callable[[], _T]) -> Callable[[], _T]:
    """Start a query in a thread; return a function that waits for its answer."""
    answer: Future[_T] = Future()

    def run() -> None:
        try:
            answer.set_result(query())
        except Exception as error:  # noqa: BLE001  raised where the answer is wanted
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()  # a process that ends before the answer does not wait
    return answer.result


def _newest_version(versions: Mapping[str, str], prefix: str) -> str | None:
    """Return the newest version of a wheel; wheels for several CUDA versions can be installed side by side."""
    found = [version for name, version in versions.items() if name.startswith(prefix)]
    return max(found, key=version_numbers, default=None)


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
    """Return NVIDIA's GPUs of these models; run ``nvidia-smi``, which takes a second, if the table lacks one."""
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
