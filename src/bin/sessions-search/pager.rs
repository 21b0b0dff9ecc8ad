//! A pager for what is higher than the screen.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::interrupt::on_interrupt;

/// Shows a text higher than the screen through `$PAGER`, else `less`. Tells whether it was shown; it is not where nobody
/// is there to turn pages, or the pager can't be started.
pub(crate) fn paged(text: &str) -> bool {
    let somebody = io::stdin().is_terminal() && io::stderr().is_terminal() && io::stdout().is_terminal();
    let is_high = || rows().is_some_and(|rows| text.lines().count() >= rows);
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

/// Rows of the terminal; one that does not know its size has none.
fn rows() -> Option<usize> {
    let (_, terminal_size::Height(rows)) = terminal_size::terminal_size_of(io::stdout())?;
    (rows > 0).then_some(rows.into())
}
