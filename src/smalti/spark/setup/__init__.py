"""What makes a session ready for Mosaic: Java, the jar of the provider, and the settings of a local session."""
