# Completion of weft(1) for bash. Options come from the --help of the command itself.

_weft_commands='run env doctor stat top watch reads draw serve status rescan discover ls info cp'
_weft_commands+=' attach help'

_weft_options() {
    "$1" help "$2" 2>/dev/null | grep -Eo -- '(^|[ ,])--[a-z][a-z-]*=?' | tr -d ' ,' | sort -u
}

# The process ids of the caller's programs that use weft, from the names of their control sockets.
_weft_pids() {
    sed -n "s/.* 00010000 .*@weft\.$(id -u)\.\([0-9]*\)$/\1/p" /proc/net/unix 2>/dev/null
}

# The process ids of the caller's storage nodes.
_weft_nodes() {
    local folder=${WEFT_RUNTIME_DIR:-${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/weft} socket
    [[ $(id -u) == 0 && -z $WEFT_RUNTIME_DIR ]] && folder=/run/weft
    for socket in "$folder"/node.*; do
        [[ -S $socket ]] && echo "${socket##*.}"
    done
}

_weft_value() {
    case $1 in
    --link) compgen -W 'socket udp tap: tun:' -- "$2" ;;
    --tx) compgen -W 'copy reference' -- "$2" ;;
    --mpa-revision) compgen -W '1 2' -- "$2" ;;
    --trace) compgen -W 'all mpa ddp rdmap qp cq mem conn tcp link rnic' -- "$2" ;;
    --format) compgen -W 'shell github dotenv json' -- "$2" ;;
    --wire) compgen -W 'iwarp roce' -- "$2" ;;
    --view) compgen -W 'preload off' -- "$2" ;;
    --memory) compgen -W 'short enough' -- "$2" ;;
    --pcap | --stats | --*-file) compgen -f -- "$2" ;;
    --crc | --markers | --extensions | --peer-to-peer | --write-flush)
        compgen -W 'on off' -- "$2" ;;
    esac
}

# Where in COMP_WORDS the program of `weft run` stands; nothing: not yet. bash splits words at =.
_weft_program_index() {
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        = | -*) continue ;;
        esac
        case ${COMP_WORDS[i - 1]} in
        --quiet | --json) ;;
        = | --?*) continue ;; # the value of an option
        esac
        echo "$i"
        return
    done
}

_weft_words() {
    mapfile -t COMPREPLY < <("$@")
}

_weft_run() {
    local word=$1 before=$2 program
    program=$(_weft_program_index)
    if [[ -n $program ]]; then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$program"
        else
            _weft_words compgen -f -- "$word"
        fi
    elif [[ $word == = ]]; then
        _weft_words _weft_value "$before" ''
    elif [[ $before == = ]]; then
        _weft_words _weft_value "${COMP_WORDS[COMP_CWORD - 2]}" "$word"
    elif [[ $word == -* ]]; then
        _weft_words compgen -W "$(_weft_options "${COMP_WORDS[@]:0:2}")" -- "$word"
        [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
    else
        _weft_words compgen -c -- "$word"
    fi
}

_weft_serve() {
    local word=$1 before=$2
    if [[ $word == = && $before == --rta ]]; then
        _weft_words compgen -W 'each one host' -- ''
    elif [[ $before == = && ${COMP_WORDS[COMP_CWORD - 2]} == --rta ]]; then
        _weft_words compgen -W 'each one host' -- "$word"
    elif [[ $word == -* ]]; then
        _weft_words compgen -W "$(_weft_options "${COMP_WORDS[0]}" serve)" -- "$word"
        [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
    elif [[ $before != = ]]; then
        _weft_words compgen -f -W 'file: ram: null: rbd: module:' -- "$word"
    fi
}

# Commands that take addresses of volumes; `weft cp` takes files too.
_weft_volumes() {
    local word=$1 command=$2
    if [[ $word == -* ]]; then
        _weft_words compgen -W "$(_weft_options "${COMP_WORDS[0]}" "$command")" -- "$word"
        [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
    elif [[ $command == cp ]]; then
        _weft_words compgen -f -W 'nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi:// nbd://' \
            -- "$word"
    elif [[ $command == attach ]]; then
        _weft_words compgen -W 'nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi://' -- "$word"
    elif [[ $command != discover ]]; then
        _weft_words compgen -W 'nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi:// nbd://' -- "$word"
    fi
}

_weft() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    case $COMP_CWORD:${COMP_WORDS[1]} in
    1:*)
        _weft_words compgen -W "$_weft_commands --help --version" -- "$word"
        ;;
    2:help)
        _weft_words compgen -W "$_weft_commands environment" -- "$word"
        ;;
    *:run | *:doctor) _weft_run "$word" "$before" ;;
    *:serve) _weft_serve "$word" "$before" ;;
    *:cp | *:attach | *:discover | *:ls | *:info) _weft_volumes "$word" "${COMP_WORDS[1]}" ;;
    *:status | *:rescan)
        if [[ $word == -* ]]; then
            _weft_words compgen -W "$(_weft_options "${COMP_WORDS[@]:0:2}")" -- "$word"
            [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
        elif [[ $word != = && $before != = ]]; then
            _weft_words compgen -W "$(_weft_nodes)" -- "$word"
        fi
        ;;
    *:env)
        if [[ $word == = || $before == = ]]; then
            [[ $word == = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}
            _weft_words _weft_value "$before" "${word#=}"
        else
            _weft_words compgen -W "$(_weft_options "${COMP_WORDS[@]:0:2}")" -- "$word"
            [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
        fi
        ;;
    *:top | *:watch)
        if [[ $word == -* ]]; then
            _weft_words compgen -W "$(_weft_options "${COMP_WORDS[@]:0:2}")" -- "$word"
            [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
        elif [[ $word != = && $before != = ]]; then
            _weft_words compgen -W "$(_weft_pids) $(_weft_nodes)" -- "$word"
        fi
        ;;
    *:draw)
        if [[ $word == -* ]]; then
            _weft_words compgen -W "$(_weft_options "${COMP_WORDS[@]:0:2}")" -- "$word"
            [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace 2>/dev/null
        elif [[ $word != = && ($before != = || ${COMP_WORDS[COMP_CWORD - 2]} == --output) ]]; then
            _weft_words compgen -f -- "$word"
        fi
        ;;
    *:stat | *:reads)
        if [[ $word == = || $before == = ]]; then
            [[ $word == = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}
            _weft_words _weft_value "$before" "${word#=}"
        elif [[ $word == -* ]]; then
            _weft_words compgen -W "$(_weft_options "${COMP_WORDS[@]:0:2}")" -- "$word"
        else
            _weft_words compgen -W "$(_weft_pids)" -- "$word"
        fi
        ;;
    esac
}

complete -F _weft weft
