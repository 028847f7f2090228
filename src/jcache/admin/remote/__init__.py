"""Look after a store behind a URL: list, count, verify and prune it. Nothing here needs a root.

It imports `jcache.remote`, the planning of `jcache.store.eviction`, and the fields and filters of `jcache.admin`.
"""
