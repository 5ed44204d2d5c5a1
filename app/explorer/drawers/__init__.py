"""What opens beside a page: the definition, the parts and the SQL of a number or an answer."""
