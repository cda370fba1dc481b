"""Tidy: raw files to Parquet."""


rule tidy_family:
    """Parse every trial of a family. What parses is input, because Snakemake does not see imported modules."""
    input:
        sessions=session_indexes,
        code=code_of_tables,
    output:
        tables=directory("data/tidy/{study}/{family}"),
    log:
        "logs/tidy_family/{study}/{family}.log",
    resources:
        **BESIDE_NO_MEASUREMENT,
    params:
        cases=cases_of_family,
    shell:
        "python workflow/scripts/tidy_family.py"
        " --family {wildcards.family:q}"
        " --tables {output.tables:q}"
        " --study {wildcards.study:q}"
        " --log {log:q}"


rule confirm_sessions:
    """Fail when a session could not be held. Reports are made all the same, and the next run tries again."""
    input:
        sessions=session_indexes,
    output:
        held=f"data/tidy/{STUDY.study}/sessions-held.txt",
    log:
        f"logs/confirm_sessions/{STUDY.study}.log",
    shell:
        "python workflow/scripts/confirm_sessions.py"
        " --held {output.held:q}"
        " --sessions {input.sessions:q}"
        " 2> {log:q} || {{ cat {log:q} >&2; exit 1; }}"
