"""Tests of the audits: both arms, the archive, the report."""
