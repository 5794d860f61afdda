"""Pure text: splitting into parts, directives."""
