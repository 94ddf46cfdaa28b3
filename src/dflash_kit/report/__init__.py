"""What receipts say of a fleet: a page, a table, and what two of them differ in."""
