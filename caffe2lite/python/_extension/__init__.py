"""What stands above the engine, and needs packages that a plain install lacks, of what C offers."""
