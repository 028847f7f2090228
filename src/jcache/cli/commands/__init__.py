"""One module for each command; each is imported only when its command is called."""
