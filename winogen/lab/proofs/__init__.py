"""What is proven about programs, and what they cost: no shorter one, two dimensions, the report."""
