"""Settings that the user and a root keep in files, and where the value of each setting comes from.

Imports from `store` and below. Begin with `settings`, the table of settings; `files` reads and writes ``jcache.toml``.
"""
