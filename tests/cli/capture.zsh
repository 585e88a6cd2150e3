# What zsh would complete, a line each:
#
#     zsh -f capture.zsh FUNCTIONS FOLDER LINE
#
# LINE is a command line whose last word is to be completed, in FOLDER, by the completion functions
# in FUNCTIONS, where what zsh knows of its own ones is left for the next time. An interactive zsh
# on a terminal of its own reads this file too, after `inside`.
zmodload zsh/zpty

if [[ $1 == inside ]]; then
    PROMPT= PS2= RPS1= LISTMAX=0
    cd $3
    fpath=($2 $fpath)
    autoload -U compinit && compinit -u -d $2/.zcompdump
    bindkey '^I' complete-word
    # Matches that are only asked for, by -A, -O or -D, are nobody's yet.
    compadd() {
        local -a hits
        if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
            builtin compadd -A hits "$@"
            (($#hits)) && print -l -- "HIT "$^hits
        fi
        builtin compadd "$@"
    }
    finish() { print -- 'END OF HITS' }
    comppostfuncs=(finish)
    print 'READY'
    return
fi

await() {
    while zpty -r shell line; do
        [[ $line == *$1* ]] && return
        [[ $line == *HIT\ * ]] && print -r -- ${${line##*HIT }%%$'\r'*}
    done
}

zpty shell zsh -f -i
zpty -w shell "source ${(q)0:a} inside ${(q)1} ${(q)2}"
await READY
zpty -w -n shell "$3"$'\t'
await 'END OF HITS'
zpty -d shell
