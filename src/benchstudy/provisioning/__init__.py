"""What is installed on hosts: pyinfra deploys, and programs that are built there."""
