"""Tidy: raw files to Parquet."""


rule tidy_family:
    """Parse every trial of a family. The parsers are inputs, because Snakemake does not see imported modules."""
    input:
        sessions=session_indexes,
        family="src/benchstudy/families/{family}.py",
        parsers=files_below("src/benchstudy/parsers", "*.py"),
        tidy="src/benchstudy/tidy.py",
    output:
        tables=directory("data/tidy/{study}/{family}"),
    log:
        "logs/tidy_family/{study}/{family}.log",
    script:
        "../scripts/tidy_family.py"
