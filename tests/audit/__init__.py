"""Tests of the audits: both arms, the results, the report."""
