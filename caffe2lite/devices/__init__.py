"""Where arrays live and compute: the CPU, CUDA by CuPy, and GPUs emulated on the CPU."""
