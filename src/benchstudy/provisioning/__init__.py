"""What hosts get installed: pyinfra deploys, and programs that are built there."""
