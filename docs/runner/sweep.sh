#!/bin/sh
# Removes what a killed run left behind: containers, volumes and folders of evenbench. Run as the runner's user.
# The other hooks call it; by hand it is safe while no run of this user is under way.
set -eu

engine=${EVENBENCH_LAUNCHER:-}
answer_s=60 # an engine that hangs must not hold the job for ever: hooks have no time limit of their own

# Where docker is shared, another runner's containers show as well: their names hold the id of a process that lives
# and is another user's.
is_anothers() {
    pid=${1#evenbench-}
    pid=${pid%%-*}
    case $pid in '' | *[!0-9]*) return 1 ;; esac
    owner=$(stat -c %u "/proc/$pid" 2>/dev/null) || return 1
    [ "$owner" != "$(id -u)" ]
}

# sweep WHAT NAMES REMOVE…: gives each of the names that is ours to `engine REMOVE`.
sweep() {
    what=$1
    names=$2
    shift 2
    for name in $names; do
        is_anothers "$name" && continue
        echo "removing $what $name"
        timeout "$answer_s" "$engine" "$@" "$name" >/dev/null
    done
}

case $engine in
docker | podman)
    # Assigned first, so that an engine that does not answer ends the script. All that evenbench makes has this label.
    containers=$(timeout "$answer_s" "$engine" ps --all --filter label=evenbench --format '{{.Names}}')
    sweep container "$containers" rm --force --volumes
    volumes=$(timeout "$answer_s" "$engine" volume ls --filter label=evenbench --format '{{.Name}}')
    sweep volume "$volumes" volume rm --force
    ;;
esac

find "${TMPDIR:-/tmp}" -mindepth 1 -maxdepth 1 -type d -name 'evenbench-*' -user "$(id -u)" -exec chmod -R u+rwX {} + \
    -exec rm -rf {} +
