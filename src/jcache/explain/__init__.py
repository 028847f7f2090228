"""Why programs missed the cache: compare the records of runs, name the causes, and say what to do.

May import `jcache.verify`, `jcache.runs`, `jcache.configuration` and lower tiers. Engines return values; JAX is used in
a child process alone.
"""
