"""Caches on their way: out of a root, into a root, and what will hit there."""
