# shellcheck shell=bash
# Ends the throwaway engine's processes, each by its pid. Sourced by docker-engine.

# Prints the pids of the processes that run the named program of this engine, and of no other.
pids_of() {
    find /proc/[0-9]*/exe -lname "$KIT/root/*/$1" -printf '%h\n' 2>/dev/null |
        sed 's|^/proc/||' || true # a process may end meanwhile
}

gone() { # gone SECONDS PID...: waits until the processes have ended (a zombie has)
    local tries pid alive
    for ((tries = 0; tries < $1 * 10; tries++)); do
        alive=
        for pid in "${@:2}"; do [[ ! -e /proc/$pid/exe ]] || alive=$pid; done
        [[ -n $alive ]] || return 0
        sleep 0.1
    done
    return 1
}

# dockerd stops its containers and ends everything else by itself. What is left after it are the
# remains of an engine that was killed.
end_processes() {
    local pids pid name
    mapfile -t pids < <(pids_of dockerd)
    if [[ ${#pids[@]} -gt 0 ]]; then
        say "stopping the throwaway engine and its containers"
        kill "${pids[@]}" 2>/dev/null || true
        gone 60 "${pids[@]}" || kill -KILL "${pids[@]}" 2>/dev/null || true
        gone 5 "${pids[@]}" || true
    fi
    for pid in $(pids_of containerd-shim-runc-v2); do
        read -r -d '' -a pids < <(cat "/proc/$pid"/task/*/children 2>/dev/null) || true
        kill -KILL "${pids[@]}" "$pid" 2>/dev/null || true
    done
    for name in containerd docker-proxy runc; do
        for pid in $(pids_of "$name"); do
            kill -KILL "$pid" 2>/dev/null || true
            gone 5 "$pid" || true
        done
    done
}
