# shellcheck shell=bash
# The throwaway engine's bridge, addresses and firewall rules. Sourced by docker-engine.
#
# Engines in one network namespace flush each other's DOCKER chains, so this one is told to leave
# iptables alone: ports are published by docker-proxy, and three rules over an address range of
# its own give its containers the network. Forwarding stays on, as Docker itself leaves it.

ENGINE_ID=$(printf '%s' "$HOME_DIR" | sha256sum | cut -c 1-8)
readonly ENGINE_ID
readonly BRIDGE=dfk$ENGINE_ID # at most 15 characters
readonly POOL_FILE=$HOME_DIR/pool

in_use() { # in_use NETWORK: does any route but the default one overlap it?
    [[ -n $(ip -4 route show root "$1") ]] || ip -4 route show match "$1" | grep -qv ^default
}

choose_pool() {
    local pool start=$((16#${ENGINE_ID:0:4})) step
    pool=$(cat "$POOL_FILE" 2>/dev/null || true)
    if [[ -n $pool ]] && ! in_use "$pool"; then return; fi
    for step in {0..127}; do
        pool=10.$((128 + (start + step) % 128)).0.0/16
        if ! in_use "$pool"; then
            echo "$pool" >"$POOL_FILE"
            return
        fi
    done
    die 1 "no free address range in 10.128.0.0/9 for the containers of the throwaway engine"
}

rules() { # rules ACTION: -I or -D
    local pool
    pool=$(cat "$POOL_FILE")
    rule "$1" nat POSTROUTING -s "$pool" ! -d "$pool" -j MASQUERADE
    # Each is inserted before the last: out and between is free, answers come back, and nobody else
    # on the network reaches a container by its own address. Published ports go through docker-proxy.
    rule "$1" filter FORWARD -d "$pool" -j DROP
    rule "$1" filter FORWARD -d "$pool" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
    rule "$1" filter FORWARD -s "$pool" -j ACCEPT
}

rule() { # rule ACTION TABLE CHAIN SPEC...
    local action=$1 table=$2 exists=no
    shift 2
    ! iptables --wait -t "$table" -C "$@" 2>/dev/null || exists=yes
    [[ $action$exists == -Iyes || $action$exists == -Dno ]] ||
        iptables --wait -t "$table" "$action" "$@"
}

network_up() {
    if ! ip link show "$BRIDGE" &>/dev/null; then
        choose_pool
        ip link add name "$BRIDGE" type bridge
        ip addr add "$(sed 's|\.0\.0/16|.0.1/24|' "$POOL_FILE")" dev "$BRIDGE"
    fi
    ip link set "$BRIDGE" up
    echo 1 >/proc/sys/net/ipv4/ip_forward
    rules -I
}

# The engine keeps the bridges of its networks when it ends, so they are read from its database.
network_down() {
    local name database=$HOME_DIR/data/network/files/local-kv.db
    [[ -e $POOL_FILE ]] || return 0
    {
        echo "$BRIDGE"
        grep -aoP '"BridgeName":"\K[^"]+' "$database" 2>/dev/null || true
    } | sort -u | while read -r name; do
        ! ip link show type bridge | grep -q " $name:" || ip link delete "$name"
    done
    rules -D
}
