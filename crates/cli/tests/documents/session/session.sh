# Functions for the session of a page. Each step is a file in $_steps; its output and its exit code go to files beside it.

# _run NUMBER: runs a step in this shell, so that it keeps the directory and the variables.
_run() {
    source "$_steps/$1" >"$_steps/$1.out" 2>&1 </dev/null
    local code=$?
    echo "$code" >"$_steps/$1.code"
    return "$code"
}

# _start NUMBER NAME PATTERN: starts a service, and waits until a line of its output matches the pattern.
_start() {
    if [ -n "$2" ]; then _stop "$2"; fi
    : >"$_steps/$1.out"
    set -m
    (source "$_steps/$1") >"$_steps/$1.out" 2>&1 </dev/null &
    set +m
    if [ -n "$2" ]; then _services[$2]=$!; fi
    local attempts
    for ((attempts = 0; attempts < 1200; attempts++)); do
        if grep -qE "$3" "$_steps/$1.out"; then
            echo 0 >"$_steps/$1.code"
            return
        fi
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    echo 1 >"$_steps/$1.code"
    return 1
}

# _stop NAME: ends a service as Ctrl-C does, and waits for it.
_stop() {
    local process=${_services[$1]:-}
    if [ -z "$process" ]; then return; fi
    kill -INT "$process" 2>/dev/null
    wait "$process"
    unset "_services[$1]"
}

declare -A _services
ip link set lo up || exit
