"""What runs in pods of tests about logs and spans: it writes what it is told to, or sends spans."""
