"""Push and pull: entries go to a store behind a URL and come back, with the checks of an export and an import.

`push` surveys entries as an export does, and stores those that the store lacks. `pull` lists what the store has, makes
the manifest of an archive of it, and hands its entries to the importer. `manifests` keeps what a push knows of its
entries: digests, makers and worlds. `generations` are whole archives under a name.
"""
