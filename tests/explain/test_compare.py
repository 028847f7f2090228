"""What differs between two recorded programs, in the order of the vocabulary."""

from jcache.vocabulary import CauseKind
from tests.helpers.records import explained, module_text, process, program, run


def test_the_hash_seed_explains_another_order() -> None:
    """Where Python's hash seed differs, it is the cause of another order."""
    old, new = module_text(), module_text(swap=True)
    runs = [
        run(n, process(program("step", text), digests={"PYTHONHASHSEED": f"digest{n}"}))
        for n, text in enumerate((old, new))
    ]
    (cause,) = explained(*runs, texts=(old, new)).causes
    assert (cause.item, cause.current, cause.baseline) == (CauseKind.HASH_SEED, "digest1", "digest0")
