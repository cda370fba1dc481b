"""Studies with many targets: the spread over targets, which targets stand out, and a page for each target."""
