"""The operations that this program carries out itself, one file for each subject, and their table."""
