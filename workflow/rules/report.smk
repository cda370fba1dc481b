"""Report: notebooks, pages, the first page of the study, and the list of all studies."""


rule make_page:
    """Run a page's notebook on its tables, and render it. A failing cell keeps its traceback in the log notebook."""
    input:
        notebook=notebook_of_page,
        tables=tables_of_page,
        published=PUBLISHED,
        code=code_of_page,
    output:
        # A failed job leaves the previous page.
        notebook=update("reports/{study}/notebooks/{page}.ipynb"),
        exports=update(directory("reports/{study}/{page}")),
        page=update("reports/{study}/{page}.html"),
    log:
        notebook="logs/make_page/{study}/{page}.ipynb",
        text="logs/make_page/{study}/{page}.log",
    priority: turn_of_page
    resources:
        **BESIDE_NO_MEASUREMENT,
    params:
        declaration=declaration_of_page,
        content=content_of_page,
    shell:
        "script make_page.py"
        " --page {wildcards.page:q}"
        " --notebook {input.notebook:q}"
        " --tables {input.tables[0]:q}"
        " --trace {log.notebook:q}"
        " --executed {output.notebook:q}"
        " --exports {output.exports:q}"
        " --html {output.page:q}"
        " --study {wildcards.study:q}"
        " --log {log.text:q}"


rule build_index:
    """Build the first page (study, hosts, failures with causes, links to everything else) and a zip of its reports."""
    input:
        pages=expand("reports/{study}/{page}.html", study=STUDY.study, page=PAGES),
        tables=expand("data/tidy/{study}/{family}", study=STUDY.study, family=FAMILIES),
        sessions=sessions_of_index,
        code=inputs.code_of_index(FAMILIES),
    output:
        # A failed job leaves the previous files.
        first_page=update(WITH_FIRST_PAGE),
    log:
        f"logs/build_index/{STUDY.study}.log",
    params:
        name=STUDY.study,
        study=STUDY.sha256,
        content=inputs.content_of(inputs.code_of_index(FAMILIES)),
    shell:
        "script build_index.py" " --study {params.name:q}" " --log {log:q}"


rule list_studies:
    """Build the first page of all reports. Every study has this rule with the same inputs, so none makes it due."""
    input:
        studies=listed_studies,
        comparisons=files_below("reports/comparisons", "*.html"),
        code=inputs.code_of_list(),
    output:
        # Somebody may be reading it.
        index=update("reports/index.html"),
    log:
        f"logs/list_studies/{STUDY.study}.log",
    resources:
        # As a parameter, the name would make the page due again for the next study.
        study=STUDY.study,
    params:
        content=inputs.content_of(inputs.code_of_list()),
    shell:
        "script list_studies.py" " --study {resources.study:q}" " --log {log:q}"


rule build_crate:
    """Pack the study as one file that others can check and reproduce. Not in `report`: it reads all raw files."""
    input:
        index=WITH_FIRST_PAGE[0],
        sessions=sessions_to_pack,
        code=code_of_crate,
    output:
        crate=update(f"reports/{STUDY.study}.crate.zip"),
    log:
        f"logs/build_crate/{STUDY.study}.log",
    resources:
        **BESIDE_NO_MEASUREMENT,
    params:
        name=STUDY.study,
        study=STUDY.sha256,
        content=content_of_crate,
    shell:
        "script build_crate.py" " --crate {output.crate:q}" " --study {params.name:q}" " --log {log:q}"
