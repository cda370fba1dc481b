"""What Snakemake calls: one module a kind of job."""
