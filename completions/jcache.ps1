# PowerShell completion for jcache, printed by: jcache completion powershell
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
