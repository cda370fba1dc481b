"""The jobs that Snakemake runs: one module per kind of job."""
