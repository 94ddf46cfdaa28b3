# shellcheck shell=bash disable=SC2034
# Names and small helpers shared by the scripts beside this folder. Sourced, never run.

PATH=$PATH:/usr/sbin:/sbin # a user's lacks them on Debian

# The oldest Docker that builds and runs this project: heredocs, named contexts and CDI.
readonly MIN_DOCKER=26

SCRIPTS=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
readonly SCRIPTS
readonly HOME_DIR=${SCRIPTS%/*}/.docker # all that the throwaway engine owns
readonly KIT=$HOME_DIR/engine           # its programs, unpacked

say() { printf '%s\n' "$*" >&2; }
die() { # die EXIT_CODE MESSAGE...
    local code=$1
    shift
    say "${0##*/}: $*"
    exit "$code"
}
is_root() { [[ $EUID -eq 0 ]]; }

# need_commands COMMAND=PACKAGE...: installs the packages whose command is missing.
need_commands() {
    local pair log missing=()
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
    done
    [[ ${#missing[@]} -eq 0 ]] && return
    if ! is_root || ! command -v apt-get >/dev/null; then
        die 2 "missing on this machine: ${missing[*]}; install them and run this again"
    fi
    say "installing ${missing[*]}"
    refresh_apt
    log=$(DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        "${missing[@]}" 2>&1) || die 1 "apt-get could not install ${missing[*]}: $log"
}

# A bare machine has no package lists at all; stale ones name files that are gone.
refresh_apt() {
    [[ -z ${APT_FRESH:-} ]] || return 0
    apt-get update -qq >&2 || die 1 "apt-get update failed; check this machine's apt sources"
    APT_FRESH=1
}

# Lines "release uri" of this machine's sources that are Debian's own.
debian_sources() {
    # shellcheck disable=SC2016  # apt's own placeholders
    apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(RELEASE) $(REPO_URI)' \
        'Created-By: Packages' | awk '$1 == "Debian" && $2 == "main" {print $3, $4}'
}

readonly DEBIAN_KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
