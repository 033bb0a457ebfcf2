#!/bin/sh
# GitHub's runner runs this after each job, also a failed or cancelled one: ACTIONS_RUNNER_HOOK_JOB_COMPLETED.
# A failure marks the job as failed, so that somebody looks at the machine.
set -eu
exec "$(dirname "$0")/sweep.sh"
