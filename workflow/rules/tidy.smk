"""Tidy: raw files to Parquet."""


rule tidy_family:
    """Parse every trial of a family. What parses is input, because Snakemake does not see imported modules."""
    input:
        sessions=sessions_of_tables,
        code=code_of_tables,
    output:
        tables=directory("data/tidy/{study}/{family}"),
    log:
        "logs/tidy_family/{study}/{family}.log",
    priority: turn_of_family
    resources:
        **BESIDE_NO_MEASUREMENT,
    params:
        cases=cases_of_family,
    shell:
        "script tidy_family.py"
        " --family {wildcards.family:q}"
        " --tables {output.tables:q}"
        " --study {wildcards.study:q}"
        " --log {log:q}"


rule confirm_sessions:
    """Fail when a session could not be held, or a raw file is not what was sealed.

    Reports are made all the same of what there is, and the next run tries again.
    """
    input:
        sessions=sessions_to_confirm,
        code=inputs.code_of_confirmation(),
    output:
        held=SESSIONS_HELD,
    log:
        f"logs/confirm_sessions/{STUDY.study}.log",
    shell:
        "script confirm_sessions.py"
        " --held {output.held:q}"
        f" --study {STUDY.study}"
        " 2> {log:q} || {{ cat {log:q} >&2; exit 1; }}"
