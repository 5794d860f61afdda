"""The composition root and what a running gateway process needs around its accounts."""
