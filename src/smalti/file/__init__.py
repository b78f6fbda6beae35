"""One Mosaic file: reading it, writing it, and saying how it is laid out."""
