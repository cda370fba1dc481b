"""Releases of a server under the same load, by what a Prometheus saw of them."""
