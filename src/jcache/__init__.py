"""See, bound, check and ship the on-disk caches of JAX programs."""

__version__ = "0.1.0"
