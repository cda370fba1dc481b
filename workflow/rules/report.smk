"""Report: notebooks, pages, and the index."""


rule execute_notebook:
    """Run a family's notebook on its tables. A failing cell keeps its traceback in the log notebook."""
    input:
        notebook="notebooks/{family}.ipynb",
        tables="data/tidy/{study}/{family}",
        published=files_below("data/published", "*.csv"),
        code=report_code(),
    output:
        notebook="reports/{study}/notebooks/{family}.ipynb",
        exports=directory("reports/{study}/{family}"),
    log:
        notebook="logs/execute_notebook/{study}/{family}.ipynb",
        text="logs/execute_notebook/{study}/{family}.log",
    resources:
        **BESIDE_NO_MEASUREMENT,
        kernels=1,
    script:
        "../scripts/execute_notebook.py"


rule render_report:
    """One self-contained page out of an executed notebook."""
    input:
        notebook="reports/{study}/notebooks/{family}.ipynb",
        code=report_code(),
    output:
        page="reports/{study}/{family}.html",
    log:
        "logs/render_report/{study}/{family}.log",
    resources:
        **BESIDE_NO_MEASUREMENT,
    script:
        "../scripts/render_report.py"


rule build_index:
    """The first page: the study, its hosts, what failed and why, and the way to everything else."""
    input:
        pages=expand("reports/{study}/{family}.html", study=STUDY.study, family=FAMILIES),
        tables=expand("data/tidy/{study}/{family}", study=STUDY.study, family=FAMILIES),
        sessions=session_indexes(),
        code=report_code(),
    output:
        index="reports/index.html",
        study_index=f"reports/{STUDY.study}/index.html",
    log:
        f"logs/build_index/{STUDY.study}.log",
    params:
        study=STUDY.sha256,
    script:
        "../scripts/build_index.py"
