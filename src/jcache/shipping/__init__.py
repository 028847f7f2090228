"""Export and import: archives that carry entries from root to root, and a forecast of what will hit there.

It imports `admin`, `verify`, `store` and what is below them. Begin with `archive`, which defines the stream; `exporter`
writes it, `importer` reads it, and `forecast` judges its executables.
"""
