"""Import: plan what an archive brings, write entries to hidden files, compare and publish them.

Begin with `archive_import`; `tar_import` takes tars without a manifest.
"""
