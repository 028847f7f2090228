# fish completion for jcache, printed by: jcache completion fish
function __jcache_complete
    set -l words (commandline -opc)
    set -l raw (commandline -ct)
    set -l current (string unescape -- $raw; or string replace -ra '[\'"]' '' -- $raw)
    set -l program $words[1]
    command -q -- $program; or set program jcache
    set -l before $words
    set -e before[1]
    set -l answer (command $program completion fish -- $before "$current" 2>/dev/null </dev/null)
    set -l prefix (string match -r -- '^--[^=]*=' $current)
    set -l value (string replace -r -- '^--[^=]*=' '' $current)
    switch "$answer[1]"
        case directories
            printf '%s\n' "$prefix"(__fish_complete_directories "$value")
        case files
            printf '%s\n' "$prefix"(__fish_complete_path "$value")
        case 'command *'
            set -l count (string split ' ' -- $answer[1])[2]
            set words $words ''
            for i in (seq $count)
                set -e words[1]
            end
            set -e words[-1]
            complete -C (string join ' ' -- (string escape -- $words) "$raw")
        case words beginnings
            set -e answer[1]
            printf '%s\n' $answer
    end
end
complete --command jcache --no-files --keep-order --arguments '(__jcache_complete)'
