"""`jcache completion`: the script that completes jcache's command lines in a shell, and its candidates.

A script holds no command and no option. On TAB it runs ``jcache completion SHELL -- WORD...`` with the words
between the program's name and the cursor, and follows the answer::

    answer    = "directories" | "files" | "command" COUNT | ("words" | "beginnings") { candidate }    (a line each)
    candidate = the whole last word, completed [ TAB help ]

``command`` means that the words after the first COUNT, which include the program's name, are another command line.
A candidate of ``beginnings`` is incomplete, so the shell adds no space after it. Typer's own scripts are not used:
they offer files where a name is needed and nothing where a file is needed, split ``--root=R`` into three words in
bash, import Rich for each answer, and must be sourced in zsh, not autoloaded.
"""

import io
import shlex
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import Annotated, Any, Final

import typer

from jcache.cli import output
from jcache.errors import InvalidValue

SHELLS: Final = ("bash", "zsh", "fish", "powershell")

_PATHS: Final = {"DIR": "directories", "FILE": "files"}  # answers for parameters with these metavars
_COMMAND: Final = "CMD..."
_SIGNS: Final = ("=", "<", ">", "~")

_BASH: Final = r"""# bash (4.4 or later) completion for jcache, printed by: jcache completion bash
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
"""

_ZSH: Final = r"""#compdef jcache
# zsh completion for jcache, printed by: jcache completion zsh
_jcache() {
    local program=${${(Q)words[1]}/#\~\//$HOME/} option line value
    local -a asked answer described spaced
    whence -p -- $program >/dev/null || program=jcache
    asked=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    answer=("${(@f)$(command $program completion zsh -- "${(@)asked}" 2>/dev/null </dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P 1 '--*=' && option=${asked[-1]%%=*}=
    case $answer[1] in
        directories | files)
            if [[ $answer[1] == files ]]; then _files; else _files -/; fi
            return
            ;;
        command*)
            shift ${answer[1]#command } words
            (( CURRENT -= ${answer[1]#command } ))
            _normal
            return
            ;;
        beginnings) spaced=(-S '') ;;
        words) ;;
        *) return 1 ;;
    esac
    for line in "${(@)answer[2,-1]#$option}"; do
        value=${${${line%%$'\t'*}//\\/\\\\}//:/\\:}
        [[ $line == *$'\t'* ]] && value+=:${line#*$'\t'}
        described+=("$value")
    done
    (( $#described )) && _describe -V 'jcache' described "${spaced[@]}"
}
if [[ $funcstack[1] == _jcache ]]; then
    _jcache "$@"
else
    compdef _jcache jcache
fi
"""

_FISH: Final = r"""# fish completion for jcache, printed by: jcache completion fish
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
"""

_POWERSHELL: Final = r"""# PowerShell completion for jcache, printed by: jcache completion powershell
Register-ArgumentCompleter -Native -CommandName jcache -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { if ($_.Value -is [string]) { $_.Value } else { $_.Extent.Text } })
    # An empty argument is passed on by no PowerShell before 7.3, so the last word goes with a mark in front.
    $answer = @(jcache completion powershell '--' @words "+$wordToComplete" 2>$null)
    # Where nothing is returned, PowerShell completes paths.
    if ($answer.Count -lt 2 -or $answer[0] -notin 'words', 'beginnings') { return }
    $answer | Select-Object -Skip 1 | ForEach-Object {
        $value, $help = $_ -split "`t", 2
        if (-not $help) { $help = $value }
        $text = if ($value -match "[\s<>'`"``$;&|(){}@#,]") { "'" + $value.Replace("'", "''") + "'" } else { $value }
        [System.Management.Automation.CompletionResult]::new($text, $value, 'ParameterValue', $help)
    }
}
"""

_SCRIPTS: Final = dict(zip(SHELLS, (_BASH, _ZSH, _FISH, _POWERSHELL), strict=True))


def complete_shells(incomplete: str) -> list[str]:
    """Return the shells that begin with a text."""
    return [shell for shell in SHELLS if shell.startswith(incomplete)]


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=", ".join(SHELLS), autocompletion=complete_shells)],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="Used by the script: complete the last of these words."),
    ] = None,
) -> None:
    """Print the completion script for a shell.

    Example: jcache completion fish > ~/.config/fish/completions/jcache.fish
    """
    text = script(shell)
    if words is None or not words:
        output.data(text.rstrip("\n"))
        return
    for line in answer(_unquoted(shell, words)):
        output.data(line)


def script(shell: str) -> str:
    """Return the completion script for a shell.

    Raises:
        InvalidValue: jcache has no script for the shell.
    """
    if shell not in SHELLS:
        raise InvalidValue(f"'{shell}' is not a shell that jcache can complete for: choose from {', '.join(SHELLS)}.")
    return _SCRIPTS[shell]


def answer(words: Sequence[str]) -> list[str]:
    """Return how to complete the last of the words after the program's name, as lines of the module's grammar.

    Errors and printed text are dropped, since a shell expects candidates or nothing.
    """
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(Exception):
        return _answer(list(words[:-1]), words[-1])
    return ["words"]


def _answer(before: list[str], current: str) -> list[str]:
    from typer._click.shell_completion import _resolve_context, _resolve_incomplete

    from jcache.cli.app import app

    ctx = _resolve_context(typer.main.get_command(app), {}, "jcache", before)
    place = 1 + len(before)
    program = _program(ctx)
    if program:
        return [f"command {place - len(program)}"]
    option = current.partition("=")[0] + "=" if current.startswith("--") and "=" in current else ""
    target, incomplete = _resolve_incomplete(ctx, before, current)
    metavar = getattr(target, "metavar", None)
    if metavar in _PATHS:
        return [_PATHS[metavar]]
    if metavar == _COMMAND:
        return [f"command {place}"]
    if option and target is ctx.command:
        return ["words"]
    items = target.shell_complete(ctx, incomplete)
    values = {option + item.value: " ".join((item.help or "").split()) for item in items}
    head = "beginnings" if any(value.endswith(_SIGNS) for value in values) else "words"
    return [head, *(f"{value}\t{text}" if text else value for value, text in values.items())]


def _program(ctx: Any) -> Sequence[str]:  # noqa: ANN401  Typer's context
    """Return the words of the program after `jcache run`; empty if its first word has not begun."""
    for parameter in ctx.command.get_params(ctx):
        if parameter.metavar == _COMMAND:
            return ctx.params.get(parameter.name) or ()
    return ()


def _unquoted(shell: str, words: Sequence[str]) -> list[str]:
    """Return the words without quotes, which bash leaves in, and without the mark, which the PowerShell script adds."""
    if shell == "powershell":
        return [*words[:-1], words[-1].removeprefix("+")]
    return [_without_quotes(word) for word in words] if shell == "bash" else list(words)


def _without_quotes(word: str) -> str:
    """Return the word without its quotes; the closing quote may be missing."""
    for end in ("", "'", '"'):
        with suppress(ValueError):
            return "".join(shlex.split(word + end))
    return word.rstrip("\\")
