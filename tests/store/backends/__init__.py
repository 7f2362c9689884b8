"""Tests of the databases behind a store."""
