//! The terminal that standard output is: how wide, how high, and a pager where a page is higher.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::interrupt::on_interrupt;

/// Columns that lines are set to: `COLUMNS` where it says, else the terminal's. Elsewhere lines stay whole.
pub(crate) fn width() -> Option<usize> {
    let said = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    said.or_else(|| size().map(|(columns, _)| columns))
}

/// Columns and rows. A terminal that does not know its size has none.
fn size() -> Option<(usize, usize)> {
    let (terminal_size::Width(columns), terminal_size::Height(rows)) = terminal_size::terminal_size_of(io::stdout())?;
    (columns > 0 && rows > 0).then_some((columns.into(), rows.into()))
}

/// Shows a text higher than the screen through `$PAGER`, else `less`. Tells whether it was shown; it is not where nobody
/// is there to turn pages, or the pager can't be started.
pub(crate) fn paged(text: &str) -> bool {
    let somebody = io::stdin().is_terminal() && io::stderr().is_terminal() && io::stdout().is_terminal();
    let is_high = || size().is_some_and(|(_, rows)| text.lines().count() >= rows);
    if !somebody || env::var_os("TERM").is_some_and(|term| term == "dumb") || !is_high() {
        return false;
    }
    let pager = match env::var("PAGER") {
        Ok(pager) if pager.trim().is_empty() || pager.trim() == "cat" => return false,
        Ok(pager) => pager,
        Err(_) => "less".to_owned(),
    };
    let mut words = pager.split_whitespace();
    let Some(program) = words.next() else { return false };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped());
    if env::var_os("LESS").is_none() {
        // Colours as they are, whole screens only, nothing erased at the end.
        command.env("LESS", "FRX");
    }
    // Ctrl-C is for the pager; the second ends us too.
    on_interrupt();
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever leaves the pager early has seen enough.
        let _ = stdin.write_all(text.as_bytes());
    }
    // Status 126 and 127 come from wrappers that found no program; what they were given is lost otherwise.
    child.wait().is_ok_and(|status| !matches!(status.code(), Some(126 | 127)))
}
