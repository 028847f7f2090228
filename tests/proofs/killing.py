"""Does operations in processes that are killed at a chosen point: a warm process that forks one for each order.

    python -m tests.proofs.killing          orders on stdin, answers on stdout, a JSON object a line

An order names an operation, a root and a seed, and by what the process dies: ``step`` (by its own hand before the n-th
line of jcache, filelock or shutil that it comes to), ``after`` (so many seconds after it began, by ours, so that system
calls are hit as well), or neither (it lives, and its steps are listed).
"""

import importlib
import io
import json
import os
import pkgutil
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypedDict

import filelock

import jcache
from jcache.formats.digest import digest
from jcache.formats.envelope import Codec, seal
from jcache.formats.executable import pack_executable
from jcache.layout import Kind, Root
from jcache.shipping.archive import ArchiveMember
from jcache.shipping.archive.manifest import Item, Manifest
from jcache.shipping.forecast.judge import judge
from jcache.shipping.forecast.machine import Machine
from jcache.shipping.importer import entry_import, write_behind
from jcache.shipping.importer.archive_import import execute_plan, plan_import
from jcache.shipping.importer.outcome import ImportOutcome, ImportResult
from jcache.store.eviction import everything, plan
from jcache.store.order import Order
from jcache.store.policy import Policy
from jcache.store.put_result import Outcome
from jcache.store.quarantine import Quarantine
from jcache.store.store import Store
from jcache.verify.repair import repair
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import NOW, SECOND, key, xla_program

NEW = range(100, 104)  # what is put
BOUND = 14_000  # room for what is new and for two pinned entries
STEPS_OF = (os.path.dirname(jcache.__file__), os.path.dirname(filelock.__file__), shutil.__file__)


class Order_(TypedDict):
    """The order that a process receives."""

    operation: str
    path: str
    plain: bool
    seed: int
    step: int | None
    after: float | None


class Answer(TypedDict):
    """The result of an order: whether and where the process was killed, its finished work, and its exception
    if it lived.
    """

    killed: bool
    seconds: float
    point: str | None
    finished: list[str]
    steps: list[str]
    error: str | None


def content(kind: Kind, a_key: str) -> bytes:
    """The right bytes of a key: 300 to 2,300 of them, that pass every check."""
    chance = random.Random(f"{kind} {a_key}")
    payload = b"\x0a" + chance.randbytes(chance.randrange(300, 2000))
    if kind is Kind.EXECUTABLES:
        return pack_executable(xla_program(payload), 3, chance.choice([Codec.ZSTD, Codec.ZLIB]))
    return seal(payload, kind=kind, name="jit_step", key=a_key, build_seconds=1.5, created_ns=NOW)


def policy(seed: int) -> Policy:
    """Return the policy of a prune."""
    chance = random.Random(seed)
    return chance.choice(
        [
            Policy(max_entries=chance.randrange(12), order=chance.choice(list(Order))),
            Policy(max_bytes=chance.randrange(20_000), order=chance.choice(list(Order))),
            Policy(keep_last=chance.randrange(12)),
        ]
    )


# -- what is interrupted; each says what it has finished


def put(store: Store, _seed: int) -> None:
    for kind in (Kind.EXECUTABLES, Kind.TRACES):
        for number in NEW:
            if store.put(kind, key(number), content(kind, key(number)), seconds=1.0) is Outcome.STORED:
                say({"finished": f"{kind} {key(number)}"})
        store.get(kind, key(NEW[0]))


def prune(store: Store, seed: int) -> None:
    store.maintenance.execute(plan(store.entries(), policy(seed), now_ns=NOW))


def clear(store: Store, _seed: int) -> None:
    store.maintenance.execute(everything(store.entries(legacy=True), legacy=True))
    store.maintenance.remove_xla()


def adopt(store: Store, _seed: int) -> None:
    for kind in Kind:
        store.maintenance.adopt(kind)


def mend(store: Store, _seed: int) -> None:
    repair(store, verify(store, VerifyRequest(grace_ns=0)).findings, grace_ns=0)


def restore(store: Store, _seed: int) -> None:
    quarantine = Quarantine(store.root)
    for record in quarantine.records():
        store.maintenance.restore(quarantine, record)


def bring(store: Store, _seed: int, *, replace: bool = False) -> None:
    """An import, in batches of three."""
    entry_import._MAX_BATCH = write_behind._MAX_JOBS = 3  # type: ignore[misc]
    datas = {
        (kind, key(number)): content(kind, key(number)) for kind in (Kind.EXECUTABLES, Kind.TRACES) for number in NEW
    }
    items = [
        Item(*name, len(datas[name]), digest(datas[name]), NOW, NOW + SECOND, sidecar=True) for name in sorted(datas)
    ]
    manifest = Manifest(jcache="0", root="/old", directory="/old", items=tuple(items))
    forecast = judge(manifest, Machine(), store.root.directory(Kind.EXECUTABLES), {})
    members = (ArchiveMember(item, "", io.BytesIO(datas[item.kind, item.key]).readinto) for item in items)
    imported = ImportResult()
    execute_plan(plan_import(manifest, store.root, forecast, replace=replace), members, store, imported)
    assert imported.count(ImportOutcome.NEW, ImportOutcome.REPLACED) == len(items)
    for kind, a_key in datas:
        say({"finished": f"{kind} {a_key}"})


OPERATIONS: dict[str, Callable[[Store, int], None]] = {
    "put": put,
    "put into a new root": put,
    "put under a bound": put,
    "prune": prune,
    "clear": clear,
    "adopt": adopt,
    "repair": mend,
    "restore": restore,
    "import": bring,
    "import over others": partial(bring, replace=True),
}


# -- how


def say(fact: dict[str, Any]) -> None:
    """Tell the process that forked this one, which reads even the last message."""
    os.write(3, json.dumps(fact).encode() + b"\n")


def operate(order: Order_) -> None:
    """Carry out an order in a process that will be killed."""
    count = 0
    at = order["step"]
    steps: list[str] = []

    def on_line(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        if event == "line":
            count += 1
            if at is None or count == at:
                steps.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            if count == at:
                say({"point": steps[0]})
                os.kill(os.getpid(), signal.SIGKILL)
        return on_line

    def on_call(frame: FrameType, event: str, argument: object) -> object:
        return on_line(frame, event, argument) if frame.f_code.co_filename.startswith(STEPS_OF) else None

    bound = BOUND if order["operation"] == "put under a bound" else None
    if order["after"] is None:
        sys.settrace(on_call)  # type: ignore[arg-type]  # typeshed wants a recursive type
    with Store(Root(Path(order["path"]), plain=order["plain"]), max_bytes=bound) as store:
        OPERATIONS[order["operation"]](store, order["seed"])
        notices = store.notices
    sys.settrace(None)
    assert not notices, notices
    say({"steps": steps if at is None else []})


def obey(order: Order_) -> Answer:
    """Fork a process that carries out the order, and return its result."""
    reading, writing = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(writing, 3)
            operate(order)
            os._exit(0)
        except BaseException:  # noqa: BLE001  it goes where it is read
            sys.settrace(None)
            say({"error": traceback.format_exc()})
            os._exit(1)
    os.close(writing)
    if order["after"] is not None:
        time.sleep(order["after"])
        os.kill(child, signal.SIGKILL)  # it is a child that nobody has waited for: its number is its own
    with open(reading, encoding="utf-8") as pipe:
        facts = [json.loads(line) for line in pipe if line.endswith("\n")]
    _, status = os.waitpid(child, 0)
    answer = Answer(
        killed=os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
        seconds=time.monotonic() - started,
        point=None,
        finished=[fact.pop("finished") for fact in facts if "finished" in fact],
        steps=[],
        error=None,
    )
    for fact in facts:
        answer |= fact
    return answer


def main() -> None:
    for module in pkgutil.walk_packages(jcache.__path__, "jcache."):
        if not module.name.endswith(("__main__", "child_load", "recompile_child", "sitecustomize")):
            importlib.import_module(module.name)
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    os.dup2(os.open(os.devnull, os.O_WRONLY), 3)  # so that no pipe gets the number that children say things by
    main()
