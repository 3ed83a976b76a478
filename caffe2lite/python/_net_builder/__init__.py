"""Nets with control flow; net_builder gathers what scripts use."""
