"""Layers of neural networks: convolution, pooling, normalization, activations, products, recurrent units."""
