"""The optimizers, by family; optimizer gathers them."""
