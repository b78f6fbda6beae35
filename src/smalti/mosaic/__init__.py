"""A Mosaic file as the format has it: stored columns in buckets. Structs and other types are `smalti.logical`'s."""
