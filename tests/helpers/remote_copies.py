"""Pushes and pulls of roots, without the command line."""

from typing import Any

from jcache.layout import Kind, Root
from jcache.remote.client import Remote
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.forecast.judge import judge
from jcache.shipping.importer.archive_import import execute_plan, plan_import
from jcache.shipping.importer.outcome import ImportResult
from jcache.shipping.sync.pull import Pull
from jcache.shipping.sync.push import PushResult, execute_push, plan_push
from jcache.shipping.sync.survey import Available, PullRequest, survey_store, with_digests
from jcache.store.store import Store
from tests.helpers.imports import HERE

SPACES = ("unknown_unknown_unknown",)


def pushed(root: Root, remote: Remote, *, sign: Any = None, **request: Any) -> PushResult:
    """Push a root."""
    result = PushResult()
    with Store(root) as store:
        plan = plan_push(store, remote, ExportRequest(processes=1, **request), signs=sign is not None)
        execute_push(plan, remote, result, sign=sign)
    return result


def pulled(remote: Remote, root: Root, request: PullRequest | None = None, **wishes: Any) -> ImportResult:
    """Pull into a root."""
    imported = ImportResult()
    available = available_in(remote, root, request)
    manifest = available.manifest
    forecast = judge(manifest, HERE, root.directory(Kind.EXECUTABLES), {})
    plan = plan_import(manifest, root, forecast, **wishes)
    with Store(root) as store, Pull(remote, available, plan, root, imported) as pulling:
        execute_plan(plan, pulling.members(), store, imported, omitted=lambda: pulling.omitted)
    return imported


def available_in(remote: Remote, root: Root, request: PullRequest | None = None) -> Available:
    """Survey a store for a root."""
    return with_digests(survey_store(remote, request or PullRequest(), SPACES), remote, root)
