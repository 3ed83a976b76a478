"""What all operators share: the registry, arguments, gradients, inference, and helpers of kernels."""
