"""What data_parallel_model consists of."""
