"""What happened, kept: the recorder over SQLite, its schedule, CSV files and thinning for charts."""
