"""Pure text: cleaning, splitting into parts, merging, directives."""
