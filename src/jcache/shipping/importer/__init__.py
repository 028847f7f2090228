"""Import: plan what an archive brings, write it beside the root, check and publish it. Begin with `archive_import`."""
