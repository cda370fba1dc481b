"""What people call: one module a command."""
