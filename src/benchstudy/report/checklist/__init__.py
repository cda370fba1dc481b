"""The checklist of a credible report; each module has a group of its questions."""
