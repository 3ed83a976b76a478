"""Test helpers of the recurrent cells."""
