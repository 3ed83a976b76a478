"""The engine: blobs and workspaces, nets compiled to plans, execution, gradients, serialisation."""
