"""What tables and the confirmation read: indexes of sessions, and the code that parses. No rules."""


def sessions_of_tables(wildcards):
    """Indexes of the sessions. Tables that were altered or truncated since they were made are made again.

    So are those of an index that came with an older time than the tables have, as `rsync -a` brings it.
    """
    tables = f"data/tidy/{STUDY.study}/{wildcards.family}"
    others = made.altered(paths.read_for_tables(Path(tables)), Path())
    if others or is_altered(tables, paths.made_tables(Path(tables)), Path(tables)):
        snakemake_adapter.plan_again(workflow, tables)
    return session_indexes(wildcards)


def cases_of_family(wildcards):
    """What the study says to measure, and how to read it: a table has one row per case, measured or not.

    What counts as disturbed is marked in tables.
    """
    plans = [plan for plan in PLANS.values() if plan.family_name == wildcards.family]
    reading = plans[0].family.reading + plans[0].disturbance.model_dump_json()
    return [plan.digest + reading for plan in plans]


def code_of_tables(wildcards):
    return inputs.code_of_tables(wildcards.family)


def content_of_tables(wildcards):
    return inputs.content_of(code_of_tables(wildcards))


def turn_of_tables(wildcards):
    """The priority of a family's tables: before all other jobs, and in the opposite order.

    Tables of many trials take the longest, and those of the last families longer than the others. Other jobs run beside
    them, but nothing runs beside the last job.
    """
    return len(IN_TURN) + IN_TURN.index(wildcards.family) + 1


def sessions_to_confirm(wildcards):
    """Indexes of the sessions. A doubtful raw file makes sessions be confirmed again, whatever else there is to do."""
    if doubtful_files():
        snakemake_adapter.plan_again(workflow, SESSIONS_HELD)
    return session_indexes(wildcards)
