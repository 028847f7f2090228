"""Functions behind the commands: count, select and remove entries of a root. `jcache.info` and `jcache.prune` are here.

It imports `verify`, `runs`, `store` and what is below them. Begin with `api`; `census` counts what a root holds.
"""
