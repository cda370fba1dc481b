"""Tidy: raw files to Parquet."""


rule tidy_family:
    """Parse every trial of a family. The parsing code is an input, because Snakemake does not see imported modules."""
    input:
        sessions=sessions_of_tables,
        code=code_of_tables,
    output:
        tables=directory("data/tidy/{study}/{family}"),
    log:
        "logs/tidy_family/{study}/{family}.log",
    priority: turn_of_tables
    resources:
        **BESIDE_NO_MEASUREMENT,
    params:
        cases=cases_of_family,
        content=content_of_tables,
    shell:
        "script tidy_family.py"
        " --family {wildcards.family:q}"
        " --tables {output.tables:q}"
        " --study {wildcards.study:q}"
        " --log {log:q}"


rule confirm_sessions:
    """Fail if a session could not be held, or if a raw file differs from what was sealed.

    Reports are still made from the available data, and the next run tries again.
    """
    input:
        sessions=sessions_to_confirm,
        code=inputs.code_of_confirmation(),
    output:
        held=SESSIONS_HELD,
    log:
        str(paths.confirmation_log(Path(), STUDY.study)),
    params:
        content=inputs.content_of(inputs.code_of_confirmation()),
    shell:
        # Its message is the last one of the command.
        "script confirm_sessions.py" " --held {output.held:q}" f" --study {STUDY.study}" " 2> {log:q}"
