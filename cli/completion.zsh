#compdef weft
# Completion of weft(1) for zsh. Commands, options and what they mean come from the command's help.

_weft_ask() {
    $_weft_program "$@" 2>/dev/null
}

_weft_commands() {
    local -a commands
    commands=(${(f)"$(_weft_ask help |
        sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1:\2/p')"})
    commands+=("$@")
    _describe -t commands command commands
}

# What weft says of a setting: "both, iwarp or roce", "on or off".
_weft_setting_values() {
    _weft_ask help environment | sed -n "/($1)\$/,/value:/s/^ *value: \([^;]*\);.*/\1/p" |
        sed 's/ or /\n/g; s/, /\n/g' | grep -x '[a-z0-9-]*'
}

# The values of an option, where it has a fixed set of them; files for who takes one.
_weft_value() {
    local -a values
    case $1 in
    --view) values=(preload off) ;;
    --memory) values=(short enough) ;;
    --format) values=(shell github dotenv json) ;;
    --rta) values=(each one host) ;;
    --pcap | --stats | --config | --output | --*-file) _files; return ;;
    *) values=(${(f)"$(_weft_setting_values $1)"}) ;;
    esac
    compadd -- $values
}

# Descriptions stand behind a colon; OPTION= takes a value.
_weft_options() {
    local -a with without
    local line
    _weft_ask help $1 |
        sed -nE 's/^ +(-[a-z], +)?(--[a-z][a-z-]*=?)[^ ]* *(.*)/\2:\3/p' |
        while read -r line; do
            if [[ $line == [^:]#=:* ]]; then with+=($line); else without+=($line); fi
        done
    _describe -t options option without -- with -qS ''
}

# The process ids of the caller's programs that use weft, from the names of their control sockets.
_weft_pids() {
    local -a pids
    pids=(${(f)"$(sed -n "s/.* 00010000 .*@weft\.$UID\.\([0-9]*\)$/\1/p" /proc/net/unix)"})
    compadd -- $pids
}

_weft_program_of() {
    local -i i
    for ((i = 3; i < CURRENT; i++)); do
        if [[ $words[i] != -* && $words[i-1] != --set ]]; then
            ((CURRENT -= i - 1))
            words=($words[i,-1])
            _normal
            return
        fi
    done
    _command_names -e
}

_weft_words() {
    case $1 in
    help) _weft_commands 'environment:the WEFT_ variables' ;;
    run | doctor) _weft_program_of ;;
    serve)
        _alternative 'files:file:_files' \
            'drivers:driver:compadd -S "" file: ram: null: rbd: module:'
        ;;
    cp)
        _alternative 'files:file:_files' \
            'volumes:volume:compadd -S "" nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi:// nbd://'
        ;;
    draw) _files ;;
    ls | info) compadd -S '' nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi:// nbd:// ;;
    attach) compadd -S '' nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi:// ;;
    stat | reads | top | watch) _weft_pids ;;
    esac
}

_weft() {
    setopt local_options extended_glob
    local _weft_program=$words[1]
    if ((CURRENT == 2)); then
        _weft_commands '--help:explain weft' '--version:the version'
    elif [[ $PREFIX == --*=* ]]; then
        local option=${PREFIX%%\=*}
        compset -P '*='
        _weft_value $option
    elif [[ $PREFIX == -* ]]; then
        _weft_options $words[2]
    else
        _weft_words $words[2]
    fi
}

_weft "$@"
