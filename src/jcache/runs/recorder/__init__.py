"""The recorder: `jcache run` puts this directory on PYTHONPATH; `jcache.runs.in_process` imports it as a module."""
