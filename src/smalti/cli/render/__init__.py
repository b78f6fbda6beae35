"""What commands print, apart from what they do: numbers and values as text, tables, rows, JSON."""
