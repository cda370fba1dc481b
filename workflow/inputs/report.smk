"""What pages, the first page, the list of studies and the crate read. No rules."""


def files_below(folder, pattern):
    """Files below a folder to depend on, in a fixed order."""
    return sorted(
        str(path) for path in Path(folder).rglob(pattern) if path.is_file() and "__pycache__" not in path.parts
    )


PUBLISHED = files_below(paths.published(Path()), "*.csv")


def notebook_of_page(wildcards):
    """The project's own notebook, the one that ships, or the family's."""
    return str(registry.notebook(wildcards.page, Path()))


def tables_of_page(wildcards):
    """The tables that a page's notebook reads: the family's own first, or those of all families.

    A page whose notebook failed is made again; Snakemake takes the last good one, which it has put back, for a new one.
    So is a page that was altered, with its figures, tables and executed notebook.
    """
    page = f"reports/{STUDY.study}/{wildcards.page}.html"
    unfinished = paths.unfinished_page(Path(), STUDY.study, wildcards.page).exists()
    if unfinished or is_altered(page, paths.made(Path(), STUDY.study, wildcards.page)):
        snakemake_adapter.plan_again(workflow, page)
    return [f"data/tidy/{STUDY.study}/{family}" for family in families_of_page(wildcards.page)]


def declaration_of_page(wildcards):
    """What pages show of the study. It is not part of a measurement, so changes measure nothing."""
    return inputs.declaration_of_page(STUDY, families_of_page(wildcards.page))


def code_of_page(wildcards):
    page = wildcards.page
    return inputs.code_of_page(page, registry.notebook(page, Path()), families_of_page(page))


def content_of_page(wildcards):
    return inputs.content_of([notebook_of_page(wildcards), *PUBLISHED, *code_of_page(wildcards)])


def turn_of_page(wildcards):
    """The priority of a page: its family's, or the lowest for a page of the whole study, which needs all families."""
    return turn_of(wildcards.page) if wildcards.page in IN_TURN else 0


def sessions_of_index(wildcards):
    """Indexes of the sessions. What is made with the first page is made again if it was altered."""
    page = WITH_FIRST_PAGE[0]
    if is_altered(page, paths.made(Path(), STUDY.study, paths.FIRST_PAGE)):
        snakemake_adapter.plan_again(workflow, page)
    return session_indexes(wildcards)


def listed_studies(wildcards):
    """The first page of each study that has reports, with this one's. A list that was altered is made again."""
    if is_altered("reports/index.html", paths.made_list(Path())):
        snakemake_adapter.plan_again(workflow, "reports/index.html")
    return sorted({*map(str, paths.first_pages(Path())), f"reports/{STUDY.study}/index.html"})


def sessions_to_pack(wildcards):
    """Indexes of the sessions. A doubtful raw file makes the crate be packed again, and so does an altered crate."""
    crate = str(paths.crate(Path(), STUDY.study))
    if doubtful_files() or is_altered(crate, paths.made(Path(), STUDY.study, paths.CRATE)):
        snakemake_adapter.plan_again(workflow, crate)
    return session_indexes(wildcards)


def code_of_crate(wildcards):
    return inputs.code_of_crate()


def content_of_crate(wildcards):
    return inputs.content_of(code_of_crate(wildcards))
