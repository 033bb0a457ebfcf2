#!/bin/sh
# GitHub's runner runs this before each job: ACTIONS_RUNNER_HOOK_JOB_STARTED. Where it fails, no step of the job runs.
# What it prints stands in the job's log, which may be public: so it is silent unless the machine is unfit.
set -eu
cd "$RUNNER_TEMP" # the job's own folder is not there yet

"$(dirname "$0")/sweep.sh"
if ! said=$(evenbench doctor --host --runner "${RUNNER_TEMP%/*/*}" 2>&1); then # RUNNER_TEMP is RUNNER/_work/_temp
    printf '%s\n' "$said" | grep -Ev '^(fit|note) '
    exit 1
fi
