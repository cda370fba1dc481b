"""List what is stored, if nothing may be measured: after a discard or a killed session, there is no session.json."""

# One rule per session, because a rule for all would also make those anew that a measurement has made.
for number, (target, family) in UNLISTED.items():

    rule:
        name:
            f"list_session_{number}"
        output:
            index=session_index(target, family),
        log:
            f"logs/list_session/{STUDY.study}/{target}/{family}.log",
        params:
            target=target,
            family=family,
        shell:
            "script list_session.py"
            " --target {params.target:q}"
            " --family {params.family:q}"
            f" --study {STUDY.study}"
            " --log {log:q}"
