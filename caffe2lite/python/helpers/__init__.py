"""The helper functions that `brew` collects."""
