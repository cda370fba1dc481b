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
        # No `script:`, here and in all reports: its preamble would import what preloaded.py has imported already.
        "python workflow/scripts/tidy_family.py {wildcards.family:q} {output.tables:q} {log:q}"


rule confirm_sessions:
    """Fail when a session could not be held. Reports are made all the same, and the next run tries again."""
    input:
        sessions=session_indexes(),
    output:
        held=f"data/tidy/{STUDY.study}/sessions-held.txt",
    log:
        f"logs/confirm_sessions/{STUDY.study}.log",
    shell:
        # No `script:`, whose preamble would take longer than all of this.
        "python workflow/scripts/confirm_sessions.py {output.held:q} {input.sessions:q} 2> {log:q} || {{ cat {log:q} >&2; exit 1; }}"
