"""Measure: one job holds the session of one family on one target."""


def plan_digest(wildcards):
    """Changes exactly when the set of trials that must exist changes: a case, a block, a definition."""
    return PLANS[wildcards.target, wildcards.family].digest


rule measure_session:
    """Measure what is missing. The trials are no output: the DAG could delete them, and must never be able to."""
    input:
        facts="data/provision/{study}/{target}.json",
    output:
        index="data/raw/{study}/{target}/{family}/session.json",
    log:
        "logs/measure_session/{study}/{target}/{family}.log",
    # Before any report: a host that waits costs more than a chart that waits.
    priority: 10
    resources:
        **WHOLE_HOSTS,
    params:
        plan=plan_digest,
    shell:
        # No `script:`, whose preamble would add a second to every measurement.
        "python workflow/scripts/measure_session.py {wildcards.target:q} {wildcards.family:q} {log:q}"
