"""The verb `history`: main over time. It adds runs, shows cases, detects changes, writes pages and an issue."""
