#!/bin/sh
# register-runner.sh N: registers runner N of this machine with GitHub, for one job. Its unit runs it as root before each
# job. The token that may register runners is read here and nowhere else; what comes back is good for one runner.
set -eu
umask 077

config=${EVENBENCH_CONFIG:-/etc/evenbench}         # github.conf, and token for root alone
registered=${EVENBENCH_REGISTERED:-/run/evenbench} # runner-N.env, for systemd alone
number=$1

# ORGANISATION, RUNNER_GROUP (its number), LABELS (a JSON list), and API where it is not github.com.
# shellcheck source=/dev/null
. "$config/github.conf"

# Each registration has a name of its own, since GitHub remembers for a day one that took no job.
wanted=$(printf '{"name": "%s-%s-%s", "runner_group_id": %s, "labels": %s, "work_folder": "_work"}' \
    "$(hostname)" "$number" "$(date +%s)" "$RUNNER_GROUP" "$LABELS")

# The token goes by stdin, since a command line can be read by every user.
answer=$(printf 'Authorization: Bearer %s\n' "$(cat "$config/token")" |
    curl --silent --show-error --fail --max-time 60 --header @- --header 'Accept: application/vnd.github+json' \
        --header 'X-GitHub-Api-Version: 2022-11-28' --data "$wanted" \
        "${API:-https://api.github.com}/orgs/$ORGANISATION/actions/runners/generate-jitconfig")

mkdir -p "$registered"
printf '%s' "$answer" |
    python3 -I -c 'import json, sys; print("ACTIONS_RUNNER_INPUT_JITCONFIG=" + json.load(sys.stdin)["encoded_jit_config"])' \
        >"$registered/runner-$number.env"
