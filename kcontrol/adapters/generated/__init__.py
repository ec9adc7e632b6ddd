"""Inputs whose rows nobody keeps: they follow from an address and an offset."""
