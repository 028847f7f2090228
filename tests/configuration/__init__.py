"""Specification of the room `jcache.configuration`."""
