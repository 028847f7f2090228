"""Names of files in the directory of a run's logs, beside the logs."""

MODULE_SUFFIX = ".module"
SECRET_NAME = "secret"  # noqa: S105 - of a file
