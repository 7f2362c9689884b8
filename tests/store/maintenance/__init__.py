"""Tests of backups, restoring, and the check of a whole store."""
