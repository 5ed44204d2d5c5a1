"""The scripts of `trackside completion SHELL`.

Each calls the hidden verb `_complete` and reads its lines as data: no part of a line is ever evaluated. The verb offers
only names that are one word without a special meaning in each of the shells (`app.cli.completion.candidates.SAFE`).
"""

from __future__ import annotations

from typing import Final

BASH: Final = """\
# Completion of trackside in bash. For each new shell: source <(trackside completion bash)   in ~/.bashrc
_trackside() {
    local -a answer
    COMPREPLY=()
    mapfile -t answer < <("$1" _complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null </dev/null)
    case "${answer[0]-}" in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
        words) COMPREPLY=("${answer[@]:1}") ;;
    esac
}
complete -o nosort -F _trackside trackside 2>/dev/null || complete -F _trackside trackside
"""

ZSH: Final = """\
#compdef trackside
# Completion of trackside in zsh. For each new shell, after compinit: source <(trackside completion zsh)   in ~/.zshrc
_trackside() {
    local -a answer values shown
    local line
    answer=("${(@f)$("${(Q)words[1]}" _complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null </dev/null)}")
    case "${answer[1]-}" in
        files) _files ;;
        directories) _files -/ ;;
        words)
            for line in "${(@)answer[2,-1]}"; do
                values+=("${line%%$'\\t'*}")
                shown+=("${line/$'\\t'/  }")
            done
            compadd -V trackside -l -d shown -a -- values
            ;;
    esac
}
if [[ "${funcstack[1]-}" == _trackside ]]; then
    _trackside "$@"
else
    compdef _trackside trackside
fi
"""

FISH: Final = """\
# Completion of trackside in fish. For each new shell: trackside completion fish | source
# in ~/.config/fish/config.fish
function __trackside_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer ($words[1] _complete fish $words[2..-1] "$current" 2>/dev/null </dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path "$current"
        case directories
            __fish_complete_directories "$current"
        case words
            printf '%s\\n' $answer[2..-1]
    end
end
complete -c trackside -f -k -a '(__trackside_complete)'
"""

SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}
"""By shell."""
