"""Forecast: which executables will hit on this machine, judged without importing JAX. Begin with `judge`."""
