"""Closed forms and published formulas that the shipped functions are compared with; the product calls none of them."""
