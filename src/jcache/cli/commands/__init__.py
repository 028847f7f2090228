"""Commands of jcache, one module each. A module is imported only when its command is called."""
