# Completion of weft(1) for fish. Commands, options and what they mean come from the command's help.

# What the command that is being completed says; the words that follow are for it.
function __weft_ask
    set -l words (commandline -opc)
    $words[1] $argv 2>/dev/null
end

# The command of weft that has been typed: run, serve, …
function __weft_command
    set -l words (commandline -opc)
    echo $words[2]
end

function __weft_is
    contains -- (__weft_command) $argv
end

function __weft_commands
    __weft_ask help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
end

# OPTION= takes a value.
function __weft_options
    __weft_ask help (__weft_command) \
        | sed -nE 's/^ +(-[a-z], +)?(--[a-z][a-z-]*=?)[^ ]* *(.*)/\2\t\3/p'
end

# What weft says of a setting: "both, iwarp or roce", "on or off".
function __weft_setting_values
    __weft_ask help environment | sed -n "/($argv[1])\$/,/value:/s/^ *value: \([^;]*\);.*/\1/p" \
        | string replace -a ' or ' ', ' | string split ', ' | string match -r '^[a-z0-9-]+$'
end

# The values of the option being typed, where it has a fixed set of them.
function __weft_values
    set -l option (commandline -ct | string match -r '^--[a-z][a-z-]*=')
    set -l values
    switch "$option"
        case ''
            return
        case --view=
            set values preload off
        case --memory=
            set values short enough
        case --format=
            set values shell github dotenv json
        case --rta=
            set values each one host
        case '*'
            set values (__weft_setting_values (string trim -rc = -- $option))
    end
    printf '%s\n' $option$values
end

# The process ids of the caller's programs that use weft, from the names of their control sockets.
function __weft_pids
    sed -n "s/.* 00010000 .*@weft\."(id -u)"\.\([0-9]*\)\$/\1/p" /proc/net/unix 2>/dev/null
end

complete -c weft -f
complete -c weft -n __fish_is_first_arg -a '(__weft_commands)'
complete -c weft -n __fish_is_first_arg -l help -d 'explain weft'
complete -c weft -n __fish_is_first_arg -l version -d 'the version'
complete -c weft -n '__weft_is help' -a '(__weft_commands)'
complete -c weft -n '__weft_is help' -a environment -d 'the WEFT_ variables'
complete -c weft -n 'not __fish_is_first_arg; and string match -q -- "-*" (commandline -ct)' \
    -a '(__weft_options; __weft_values)'
complete -c weft -n '__weft_is run doctor' -a '(__fish_complete_subcommand --fcs-skip=2)'
complete -c weft -n '__weft_is serve' -F -a 'file: ram: null: rbd: module:'
complete -c weft -n '__weft_is cp' -F -a 'nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi:// nbd://'
complete -c weft -n '__weft_is draw' -F
complete -c weft -n '__weft_is ls info' -a 'nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi:// nbd://'
complete -c weft -n '__weft_is attach' -a 'nvme+rdma:// nvme+tcp:// iscsi+rdma:// iscsi://'
complete -c weft -n '__weft_is stat reads top watch' -a '(__weft_pids)'
