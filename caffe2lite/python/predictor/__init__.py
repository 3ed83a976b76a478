"""Export of trained models for prediction."""
