"""Report: notebooks, pages, and the index."""


rule execute_notebook:
    """Run a page's notebook on its tables. A failing cell keeps its traceback in the log notebook."""
    input:
        notebook=notebook_of_page,
        tables=tables_of_page,
        published=files_below("data/published", "*.csv"),
        code=code_of_notebook,
    output:
        notebook="reports/{study}/notebooks/{page}.ipynb",
        exports=directory("reports/{study}/{page}"),
    log:
        notebook="logs/execute_notebook/{study}/{page}.ipynb",
        text="logs/execute_notebook/{study}/{page}.log",
    resources:
        **BESIDE_NO_MEASUREMENT,
    params:
        acknowledged=acknowledged_findings(),
    shell:
        "python workflow/scripts/execute_notebook.py {wildcards.page:q} {input.notebook:q} {log.notebook:q}"
        " {output.notebook:q} {output.exports:q} {input.tables:q} {log.text:q}"


rule render_report:
    """One self-contained page out of an executed notebook."""
    input:
        notebook="reports/{study}/notebooks/{page}.ipynb",
        code=code_of_page,
    output:
        page="reports/{study}/{page}.html",
    log:
        "logs/render_report/{study}/{page}.log",
    resources:
        **BESIDE_NO_MEASUREMENT,
    shell:
        "python workflow/scripts/render_report.py {wildcards.page:q} {input.notebook:q} {output.page:q} {log:q}"


rule build_index:
    """The first page: the study, its hosts, what failed and why, the way to everything else, and all of it packed."""
    input:
        pages=expand("reports/{study}/{page}.html", study=STUDY.study, page=PAGES),
        tables=expand("data/tidy/{study}/{family}", study=STUDY.study, family=FAMILIES),
        sessions=session_indexes(),
        code=inputs.code_of_index(FAMILIES),
    output:
        index="reports/index.html",
        study_index=f"reports/{STUDY.study}/index.html",
        archive=f"reports/{STUDY.study}.zip",
    log:
        f"logs/build_index/{STUDY.study}.log",
    params:
        study=STUDY.sha256,
    shell:
        "python workflow/scripts/build_index.py {log:q}"


rule build_crate:
    """A study as one file that others can check and reproduce. Not a part of `report`, because all raw files are read."""
    input:
        index=rules.build_index.output.study_index,
        sessions=session_indexes(),
        code=code_of_crate,
    output:
        crate=f"reports/{STUDY.study}.crate.zip",
    log:
        f"logs/build_crate/{STUDY.study}.log",
    resources:
        **BESIDE_NO_MEASUREMENT,
    params:
        study=STUDY.sha256,
        authors=[author.model_dump_json() for author in STUDY.authors],
        license=STUDY.license,
    script:
        "../scripts/build_crate.py"
