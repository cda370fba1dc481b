"""Measure: one job holds the session of one family on one target."""


rule measure_session:
    """Measure what is missing. The trials are no output: the DAG could delete them, and must never be able to."""
    input:
        facts=facts_of_session,
    output:
        index="data/raw/{study}/{target}/{family}/session.json",
    log:
        "logs/measure_session/{study}/{target}/{family}.log",
    priority: turn_of_family
    resources:
        **WHOLE_HOSTS,
        **SPREAD,
    params:
        plan=plan_digest,
    shell:
        # No `script:`, here and in all rules, whose preamble would add a second to every job.
        "script measure_session.py"
        " --target {wildcards.target:q}"
        " --family {wildcards.family:q}"
        " --study {wildcards.study:q}"
        " --log {log:q}"
