"""A family of benchmarks in a package of its own, which nothing in benchstudy names."""
