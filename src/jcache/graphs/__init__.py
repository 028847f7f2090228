"""`jcache.graph` and `GraphCache`: results of slow builders, kept under a key of all that they depend on.

It imports `runtime` and what is below it. Begin with `cache`; `graph_store` looks up, builds and stores one graph.
"""
