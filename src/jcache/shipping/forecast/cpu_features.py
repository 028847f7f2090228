"""Features of CPUs: those of this CPU, compared with those that an executable was compiled for.

LLVM and the kernel name them differently. The tables list the features that the kernel shows exactly where LLVM finds
them. They leave out features that the kernel hides, or clears for reasons of its own (``xsaves``, ``rdseed``,
``shstk``, …), and LLVM's tuning features (``prefer-no-gather``): these may differ without notice. All other features
are unknown.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from jcache.jax_internals.path_keys import version_numbers

_OLD_X86: Final = (
    "adx aes avx avx2 avx512bw avx512cd avx512dq avx512f avx512ifma avx512vbmi avx512vl bmi2 clflushopt clwb cmov cx16"
    " cx8 f16c fma fma4 fsgsbase fxsr lwp mmx movbe popcnt rtm sse sse2 sse4a ssse3 tbm xop xsave xsavec xsaveopt"
    " 3dnowprefetch=prfchw abm=lzcnt bmi1=bmi lahf_lm=sahf lm=64bit pclmulqdq=pclmul pni=sse3 sha_ni=sha"
    " sse4_1=sse4.1 sse4_2=sse4.2"
)
_RECENT_X86: Final = (
    "cldemote clzero gfni movdir64b movdiri mwaitx rdpid rdpru serialize tsxldtrk vaes vpclmulqdq waitpkg wbnoinvd"
    " amx_bf16=amx-bf16 amx_int8=amx-int8 amx_tile=amx-tile avx512_bf16=avx512bf16 avx512_bitalg=avx512bitalg"
    " avx512_fp16=avx512fp16 avx512_vbmi2=avx512vbmi2 avx512_vnni=avx512vnni avx512_vp2intersect=avx512vp2intersect"
    " avx512_vpopcntdq=avx512vpopcntdq avx_vnni=avxvnni ospke=pku"
)
_OLD_ARM: Final = "asimd=neon fp=fp-armv8 crc32=crc atomics=lse"
_RECENT_ARM: Final = (
    "asimddp=dotprod asimdfhm=fp16fml bf16 fcma=complxnum fphp=fullfp16 i8mm jscvt=jsconv lrcpc=rcpc sve sve2"
)
_FIRST_KERNEL_WITH_RECENT: Final = (5, 16)  # the first that shows them all; older ones may hide some
_X86: Final = frozenset({"x86_64", "amd64", "i686"})
_HIDDEN: Final = (
    "crc32 enqcmd evex512 hreset invpcid kl pconfig ptwrite rdrnd rdseed sgx shstk uintr widekl xsaves"
    " aes crypto outline-atomics rand sha2 sha3 sm4 sve-aes sve2-aes sve2-sha3 sve2-sm4"
)
_TUNING_PREFIXES: Final = ("prefer-", "slow-", "fast-", "false-deps-")


def kernel_features(machine: str, kernel: str) -> dict[str, bool]:
    """Return the features of the first CPU that the kernel shows; all CPUs are alike as far as LLVM can tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return {}
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    flags = set(line[1].split()) if line else set()
    if not flags:
        return {}
    old, recent = (_OLD_X86, _RECENT_X86) if machine in _X86 else (_OLD_ARM, _RECENT_ARM)
    features = {llvm: flag in flags for flag, llvm in _name_pairs(old)}
    shows_recent = version_numbers(kernel) >= _FIRST_KERNEL_WITH_RECENT
    return features | {llvm: flag in flags for flag, llvm in _name_pairs(recent) if shows_recent or flag in flags}


def _name_pairs(table: str) -> list[tuple[str, str]]:
    """Return the kernel's and LLVM's names; a table has one word where they are the same."""
    return [(flag, llvm or flag) for flag, _, llvm in (word.partition("=") for word in table.split())]


def parse_signs(features: Collection[str]) -> dict[str, bool]:
    """Return a list's features: True for those with ``+`` or without a sign, False for those with ``-``."""
    return {name.lstrip("+-"): not name.startswith("-") for name in features}


class FeatureComparison(NamedTuple):
    """The differences between the features of an executable and those of this CPU.

    Attributes:
        missing: features that the executable needs and the CPU lacks.
        extra: features that the CPU has and the executable was compiled without.
        unknown: features that the executable needs, and that the CPU may have or not.
    """

    missing: list[str]
    extra: list[str]
    unknown: list[str]


def compare_features(made_for: Collection[str], here: Mapping[str, bool]) -> FeatureComparison:
    """Compare the features that an executable was compiled for with those of this CPU.

    Lists without any ``-`` are of jax <= 0.9 and have no signs: features that are not in them were not there.
    """
    wanted = parse_signs(made_for)
    if all(wanted.values()):
        wanted = dict.fromkeys(here, False) | wanted
    differing = [name for name, has in wanted.items() if name in here and here[name] != has]
    return FeatureComparison(
        sorted(name for name in differing if wanted[name]),
        sorted(name for name in differing if not wanted[name]),
        sorted(name for name, has in wanted.items() if has and name not in here and not _is_hidden(name)),
    )


def _is_hidden(name: str) -> bool:
    return name in _HIDDEN.split() or name.startswith(_TUNING_PREFIXES)
