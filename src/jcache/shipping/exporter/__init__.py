"""Export: survey the selected entries, read and compare them again, and write an archive. Begin with `export`."""
