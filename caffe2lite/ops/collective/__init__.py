"""Collectives between shards and between GPUs, and the stores through which shards meet."""
