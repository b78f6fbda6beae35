"""The sections of a Mosaic file, one module each, parse and pack side by side. Nothing here does IO."""
