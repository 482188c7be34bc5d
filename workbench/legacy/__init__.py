"""Pure parsers of what older TVM wrote."""
