"""Export: survey what is asked for, read and compare it, and write an archive. Begin with `export`."""
