"""What will hit or load on this machine, told before an import and by `info`. Begin with `judge`."""
