"""What commands ask of a root: counts, selections and filters, and the functions behind `jcache.info` and
`jcache.prune`.

It imports `verify`, `runs`, `store` and what is below them. Begin with `api`; `census` counts what a root holds.
"""
