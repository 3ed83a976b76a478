"""Images and clips: transforms, and input from databases."""
