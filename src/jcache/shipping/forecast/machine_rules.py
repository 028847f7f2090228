"""Rules on the machine: platform, CPU and GPU must be those that an executable was compiled for."""

from jcache.jax_internals.path_keys import version_numbers
from jcache.shipping.archive.manifest import Host, Maker
from jcache.shipping.forecast import cpu_features
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.forecast.verdict import HitVerdict, MissReason, miss, unsure


def judge_platform(maker: Maker, machine: Machine) -> HitVerdict | None:
    """Return a verdict if JAX cannot compute on the executable's platform here."""
    if maker.platform is None or maker.platform in machine.platforms:
        return None
    platforms = ", ".join(sorted(machine.platforms))
    return miss(MissReason.PLATFORM, f"they are made for {maker.platform}, and JAX has only {platforms} here")


def judge_cpu(maker: Maker, host: Host, machine: Machine) -> HitVerdict | None:
    """Return a verdict if an executable for the CPU was compiled, or may have been, for another CPU than this one.

    Args:
        maker: maker of the executable.
        host: the machine that the manifest comes from, whose CPU counts where an executable does not name its own.
        machine: this machine.
    """
    if maker.platform != "cpu":
        return None
    same_model = host.cpu is not None and host.cpu == machine.cpu
    if maker.cpu_features is None:
        if same_model:
            return None
        theirs, ours = host.cpu or "one that is not known", machine.cpu or "not known either"
        return unsure(MissReason.CPU, f"they do not name their CPU, which may be {theirs}; this one is {ours}")
    if not machine.cpu_features:
        return unsure(MissReason.CPU, "this system does not tell the features of its CPU")
    made_for = maker.cpu_name or "another CPU"
    compared = _compare_features(maker.cpu_features, machine)
    if compared.missing:
        with_ = f"they are made for {made_for} with {_first_names(compared.missing)}"
        return miss(MissReason.CPU, f"{with_}, which this CPU lacks; loading them could kill the program")
    if compared.extra:
        return miss(
            MissReason.CPU, f"they are made for {made_for} without {_first_names(compared.extra)}, which this CPU has"
        )
    if compared.unknown and not same_model:
        with_ = f"they are made for {made_for} with {_first_names(compared.unknown)}"
        return unsure(MissReason.CPU, f"{with_}, which this CPU may have or not")
    return None


def _compare_features(made_for: tuple[str, ...], machine: Machine) -> cpu_features.FeatureComparison:
    """Compare features with those of this CPU; run jaxlib only if the kernel does not show all of them."""
    compared = cpu_features.compare_features(made_for, machine.cpu_features)
    if not compared.unknown:
        return compared
    jaxlib = cpu_features.parse_signs(machine.query_jaxlib().cpu_features or ())
    shown = {name: jaxlib[name] for name in compared.unknown if name in jaxlib}
    return cpu_features.compare_features(made_for, {**machine.cpu_features, **shown})


def judge_gpu(maker: Maker, host: Host, machine: Machine) -> list[HitVerdict]:
    """Return a verdict for each way in which an executable for a GPU does not fit the GPUs and CUDA versions here.

    Args:
        maker: maker of the executable.
        host: the machine that the manifest comes from.
        machine: this machine.
    """
    if maker.platform not in ("cuda", "rocm") or maker.platform not in machine.platforms:
        return []
    device = _judge_device(maker, host, machine)
    return [*([] if device is None else [device]), *_judge_toolkit(maker, machine)]


def _judge_device(maker: Maker, host: Host, machine: Machine) -> HitVerdict | None:
    wanted, models = maker.compute_capability, ", ".join(sorted({gpu.model for gpu in machine.gpus}))
    known = {gpu.compute_capability for gpu in machine.gpus}
    if wanted is None or not known or None in known:
        return unsure(MissReason.GPU, f"whether they are made for the GPUs here ({models or 'unknown'}) is not known")
    if wanted not in known:
        ours = ", ".join(sorted(filter(None, known)))
        return miss(
            MissReason.GPU, f"they are made for compute capability {wanted}, and the GPUs here have {ours} ({models})"
        )
    theirs = set(host.gpus)
    if theirs and not theirs & {gpu.model for gpu in machine.gpus}:
        return unsure(MissReason.GPU, f"they come from {', '.join(sorted(theirs))}, and the GPUs here are {models}")
    return None


def _judge_toolkit(maker: Maker, machine: Machine) -> list[HitVerdict]:
    """Compare CUDA's versions. Another major one is another build of JAX's plugin; keys may contain minor ones."""
    found = []
    abi = dict(maker.abi_version or ())
    for name, title, ours in (("toolkit", "CUDA", machine.toolkit), ("cudnn", "cuDNN", machine.cudnn)):
        theirs = abi.get(name)
        if theirs is None:
            continue
        made_with = f"they are made with {title} {theirs}"
        if ours is None:
            found.append(unsure(MissReason.TOOLKIT, f"{made_with}, and no version of it is known here"))
            continue
        count = 2 if name == "toolkit" else 3  # the wheels of a toolkit have patch numbers of their own
        if version_numbers(theirs)[:count] != version_numbers(ours)[:count]:
            same_major = version_numbers(theirs)[:1] == version_numbers(ours)[:1]
            found.append((unsure if same_major else miss)(MissReason.TOOLKIT, f"{made_with}, and {ours} is here"))
    return found


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
