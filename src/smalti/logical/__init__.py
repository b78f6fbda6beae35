"""Arrow types over stored columns: which type is stored as which columns, and how arrays are changed and restored."""
