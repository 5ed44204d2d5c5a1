"""Every kind of job played on a lab, what is known of it from outside, and how the warehouse is held against that."""
