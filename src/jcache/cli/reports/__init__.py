"""Printed results of commands, as text and as JSON, one module for each report."""
