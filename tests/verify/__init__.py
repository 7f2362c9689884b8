"""Tests of receipts, evidence and their verification."""
