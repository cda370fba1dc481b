"""Every trial with its files, on a family's page or in pages of their own."""
