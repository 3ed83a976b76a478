"""Key-value databases that hold checkpoints and records."""
