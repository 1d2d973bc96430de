"""Its one entry point stands in a group that draftverify does not have."""
