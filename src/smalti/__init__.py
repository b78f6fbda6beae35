"""smalti."""
