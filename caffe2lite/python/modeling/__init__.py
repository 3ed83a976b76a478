"""Parameters of a model: how they are made, named, shared, watched and clipped."""
