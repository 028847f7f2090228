"""Helpers that tests of several modules share: entries, caches, programs and the command line."""
