#!/bin/sh
# Prints success, failed or running for a job, by name.
found=$(kubectl get "$1" --ignore-not-found -o jsonpath='{.status.succeeded}/{.status.failed}') || found=/
case $found in
    1/*) echo success ;;
    /) echo running ;; # also while the cluster does not answer
    *) echo failed ;;  # or somebody deleted it
esac
