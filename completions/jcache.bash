# bash (4.4 or later) completion for jcache, printed by: jcache completion bash
_jcache() {
    local line=${COMP_LINE:0:COMP_POINT} words=() starts=() answer=() i word gap current prefix quoted program value
    # Bash breaks words at = : < > as well: what the line does not separate belongs together.
    for ((i = 0; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]} gap=${line%%"${COMP_WORDS[i]}"*}
        line=${line:${#gap}+${#word}}
        if ((i)) && [[ -z $gap ]]; then
            words[-1]+=$word
        else
            words+=("$word") starts+=("$i")
        fi
    done
    current=${line#"${line%%[![:space:]]*}"}
    if [[ $line == "$current" && ($line || ${COMP_LINE:0:COMP_POINT} != *[[:space:]]) ]]; then
        current=${words[-1]}$current
        unset 'words[-1]'
    else
        starts+=("$COMP_CWORD")
    fi
    if [[ ${words[-1]} == *[\<\>] ]]; then
        compopt -o default
        return
    fi
    program=${1/#\~\//$HOME/}
    type -P "$program" >/dev/null || program=jcache
    mapfile -t answer < <("$program" completion bash -- "${words[@]:1}" "$current" 2>/dev/null </dev/null)
    case ${answer[0]} in
        directories) compopt -o dirnames ;;
        files) compopt -o default ;;
        command*)
            i=${answer[0]#command }
            if declare -F _comp_command_offset >/dev/null; then
                _comp_command_offset "${starts[i]}"
            elif declare -F _command_offset >/dev/null; then
                _command_offset "${starts[i]}"
            else
                ((i < ${#words[@]})) || mapfile -t COMPREPLY < <(compgen -c -- "$2")
                compopt -o default
            fi
            ;;
        beginnings) compopt -o nospace ;;
    esac
    [[ ${answer[0]} == words || ${answer[0]} == beginnings ]] || return
    # Only what follows the last break is replaced, and within quotes nothing needs a backslash.
    prefix=${current%"$2"}
    [[ $current == *[\'\"]* ]] && quoted=yes prefix=${prefix//[\'\"]/}
    for value in "${answer[@]:1}"; do
        value=${value%%$'\t'*}
        [[ $quoted ]] || printf -v value %q "$value"
        COMPREPLY+=("${value#"$prefix"}")
    done
}
complete -F _jcache jcache
