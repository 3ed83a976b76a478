"""Nets beside ONNX models: workspaces, running, saving."""
