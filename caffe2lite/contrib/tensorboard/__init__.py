"""Nets and statistics of blobs for TensorBoard (`pip install tensorboard`)."""
