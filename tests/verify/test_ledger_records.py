"""The records of one verification."""

from jcache.findings import Damage, Finding
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.checks import Claim
from jcache.verify.ledger_records import LedgerRecords
from tests.helpers.entries import NOW, add, executable, key
from tests.helpers.stores import EXECUTABLES


def records(store: Store, findings: list[Finding] | None = None) -> LedgerRecords:
    return LedgerRecords(store, Kind, [] if findings is None else findings)


def test_results_are_recorded_at_the_end(plain: Root) -> None:
    """What is new and what is unchanged gets the time of the verification; other facts stay."""
    for number in range(2):
        add(plain.path, key(number), executable())
    with Store(plain) as store:
        store.ledger.record([Known(EXECUTABLES, key(0), "d", seconds=2.0)])
        ours = records(store)
        assert ours.are_alike(EXECUTABLES, 2)
        assert ours.of_bytes(EXECUTABLES, [key(0), key(1)])[key(0)][0] == "d"
        ours.unchanged(EXECUTABLES, key(0))
        ours.add(Known(EXECUTABLES, key(1), "e", verified_ns=ours.verified_ns))
        ours.finish(2)
        known = store.ledger.known(EXECUTABLES)
        assert {about.verified_ns for about in known.values()} == {ours.verified_ns}
        assert (known[key(0)].digest, known[key(0)].seconds, known[key(1)].digest) == ("d", 2.0, "e")
        assert records(store).are_alike(EXECUTABLES, 2) and not records(store).are_alike(EXECUTABLES, 3)
        store.ledger.record([Known(EXECUTABLES, key(1), verified_ns=NOW)])
        assert not records(store).are_alike(EXECUTABLES, 2)


def test_what_has_gone_is_discredited(plain: Root) -> None:
    """Whether an entry had gone before the listing or goes during the check, no digest of it stays on record."""
    add(plain.path, key(0), executable())
    for how in ("before", "during", "only some are checked"):
        with Store(plain) as store:
            store.ledger.record(Known(EXECUTABLES, key(number), "d") for number in range(2))
            ours = records(store)
            ours.of_bytes(EXECUTABLES, [key(0)] if how != "during" else [key(0), key(1)])
            if how == "during":
                ours.gone(Claim(EXECUTABLES, key(1), "d"))
            ours.finish({"before": 1, "during": 2}.get(how, 7))
            known = store.ledger.known(EXECUTABLES)
            assert (known[key(0)].digest, known[key(1)].digest) == ("d", None), how


def test_a_damaged_ledger_is_a_finding(plain: Root) -> None:
    """It is reported once, and left as it is."""
    findings: list[Finding] = []
    with Store(plain) as store:
        store.ledger.record([Known(EXECUTABLES, key(0), "d")])
    damaged = b"damaged" * 1000
    plain.ledger.write_bytes(damaged)
    with Store(plain) as store:
        ours = records(store, findings)
        assert ours.lost and ours.of_bytes(EXECUTABLES, [key(0)]) == {} and ours.are_alike(EXECUTABLES, 1)
        ours.unchanged(EXECUTABLES, key(0))
        ours.finish(1)
    assert [finding.damage for finding in findings] == [Damage.LEDGER] and plain.ledger.read_bytes() == damaged
