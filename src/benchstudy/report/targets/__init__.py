"""Of a study with many targets: what they have in common, which are unlike the others, and a page of each."""
