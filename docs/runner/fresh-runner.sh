#!/bin/sh
# fresh-runner.sh N: makes the home of runner N of this machine anew, with GitHub's runner in it that is not registered.
# Its unit runs it as root before each job.
set -eu
umask 077

state=${EVENBENCH_STATE:-/var/lib/evenbench}
number=$1
user=evenbench-$number
uid=$(id -u "$user")
home=$state/runner-$number

# Ends what the last job left running: rootless containers and their like hang on the user's own manager.
systemctl restart "user@$uid.service"

# Locks of GPUs stay: another runner's run may hold one that this user made.
find "${TMPDIR:-/tmp}" -mindepth 1 -maxdepth 1 -user "$uid" ! '(' -type f -name 'evenbench-*.lock' ')' \
    -exec rm -rf {} +
rm -rf "$home"
mkdir "$home" "$home/runner"
tar --extract --gzip --no-same-owner --file "$state/actions-runner.tar.gz" --directory "$home/runner"
chown -R "$user:" "$home"
