"""`jcache.graph` and `GraphCache`: results of slow functions, kept under a key of all that they depend on.

It imports `runtime` and what is below it. Begin with `cache`: `keyed_call` makes the key of a call, `graph_lookup`
looks its graph up, `graph_keeping` stores or compares a graph that was built, and `told` reports the outcome.
"""
