# shellcheck shell=sh
# What scripts share: a Python, a virtual environment that is current, and one line per gate. Sourced, not run.

VENV=${EVENBENCH_VENV:-.venv}

say() { printf '%s\n' "$*"; }

# of_image NAME: a version that the Dockerfile names, such as TORCH.
of_image() { sed -n "s/^ARG $1=//p" Dockerfile | head -n 1; }

# pip_setting NAME: what pip is told by its environment, else by its files; nothing where it is told nothing.
# $pip_settings is what `pip config list` says, to be asked once: that takes a second.
pip_settings=
pip_setting() {
    for where in :env: global; do
        value=$(say "$pip_settings" | sed -n "s/^$where\\.$1='\\(.*\\)'\$/\\1/p" | sed 's/\\n/ /g')
        if [ -n "$value" ]; then
            say "$value"
            return
        fi
    done
}

TORCH=torch==$(of_image TORCH) # as in the image

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# end_on_signals [COMMAND]: a signal ends the script, after COMMAND, and the caller sees that a signal ended it. Without
# this, a shell may go on behind the command that was interrupted, and take it for one that failed.
end_on_signals() {
    for signal in HUP INT TERM; do
        # shellcheck disable=SC2064 # expanded now
        trap "trap - EXIT $signal; ${1:-:}; kill -s $signal \$\$" "$signal"
    done
}

# Prints the first interpreter that is new enough and can make environments.
find_python() {
    for python in ${EVENBENCH_PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            say "$python"
            return
        fi
    done
    die "no Python 3.11 or newer with venv found (hint: install one, or name it in EVENBENCH_PYTHON)"
}

# True where the tests that need torch shall run: always in CI, elsewhere unless EVENBENCH_TEST_TORCH=0.
wants_torch() {
    [ "${CI:-}" = true ] || [ "${EVENBENCH_TEST_TORCH:-1}" != 0 ]
}

# What the environment was made from; a change of any of it installs anew.
environment_stamp() {
    [ "$1" = test ] && wants_torch && torch=$TORCH || torch=none
    say "$1 $(git hash-object pyproject.toml scripts/lib.sh | tr '\n' ' ')$torch $PWD"
}

stamped() {
    [ "$(cat "$VENV/.stamp-$1" 2>/dev/null)" = "$(environment_stamp "$1")" ]
}

# prepare_environment base|test: makes the environment, or leaves it alone when its stamp is current; `test` holds `base`.
# Puts its tools first on PATH.
prepare_environment() {
    if ! stamped test && ! stamped "$1"; then
        if ! [ -x "$VENV/bin/python" ]; then
            python=$(find_python) || exit 1
            say "making $VENV with $("$python" --version)"
            "$python" -m venv "$VENV"
        fi
        say "installing evenbench into $VENV"
        if [ "$1" = test ]; then
            "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[test]'
            install_torch
        else
            "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -e .
        fi
        environment_stamp "$1" >"$VENV/.stamp-$1"
    fi
    PATH=$(cd "$VENV/bin" && pwd):$PATH
    export PATH
}

install_torch() {
    if wants_torch; then
        say "installing $TORCH for the tests that run on the CPU. Unless your pip is set up with a CPU build, this is"
        say "  a CUDA build of several gigabytes; EVENBENCH_TEST_TORCH=0 goes without it, and those tests are skipped."
        "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "$TORCH"
    fi
}

# gate NAME COMMAND…: one line when it passes; when it fails, the command and what it printed. `failed` collects names.
failed=
gate() {
    name=$1
    shift
    if output=$("$@" 2>&1); then
        say "ok    $name"
    else
        say "FAIL  $name: $*"
        say "$output"
        failed="$failed $name"
    fi
}

# system_tool PACKAGES PROGRAM…: makes sure that one of these programs is there, by apt-get where this user may install;
# else says so, and whoever needs the program fails or is skipped, with its own reason.
system_tool() {
    packages=$1
    shift
    for program; do
        if command -v "$program" >/dev/null; then return; fi
    done
    say "installing $packages"
    # shellcheck disable=SC2086 # several packages, which are several words
    if ! install_packages $packages >/dev/null 2>&1; then
        say "  could not: it takes apt-get, as root or with sudo that asks for no password. Now there is none of: $*"
    fi
}

# Lists of packages that are old or missing are fetched only where that is why it failed.
install_packages() {
    as_root='env DEBIAN_FRONTEND=noninteractive'
    [ "$(id -u)" -eq 0 ] || as_root="sudo -n $as_root"
    set -- apt-get install --yes --no-install-recommends "$@"
    $as_root "$@" || { $as_root apt-get update && $as_root "$@"; }
}

# What comments are looked at with: a browser, letters as wide as GitHub's, and the signs that a comment uses.
browser() { system_tool 'chromium fonts-liberation fonts-noto-color-emoji' chromium chromium-browser google-chrome; }
