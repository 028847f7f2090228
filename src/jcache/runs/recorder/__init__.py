"""The recorder: for other processes a directory on PYTHONPATH, for this one a module (`jcache.runs.in_process`)."""
