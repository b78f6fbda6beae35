"""Many Mosaic files as one table: which files there are, how they change together, and how they are read as one."""
