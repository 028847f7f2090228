"""Entries in a root: find, write, evict and quarantine them, and keep the ledger. No other room writes into a root.

It imports `formats`, `fingerprint` and the ground floor. Begin with `store`, whose `Store` holds the parts that
find, write and maintain the entries of one root; `foreign` holds the directories of other programs.
"""
