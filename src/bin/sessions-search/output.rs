//! Answers on standard output, everything else on standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::ops::Range;

use jiff::tz::TimeZone;
use serde::Serialize;
use sessions_search::{
    EmptyReason, HeldStatus, HistoryAnswer, HistoryBlock, Hit, ImportPreview, ImportSummary, SearchAnswer, SessionList,
    StatusReport, Timestamp,
};

use crate::args::{Cli, ColorChoice, ProgressChoice};
use crate::failure::Failure;
use crate::pager::paged;
use crate::progress::{Progress, Shown};
use crate::shell::{Call, shell_option};
use crate::wrapping::{broken, columns, width};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const MATCH: &str = "\x1b[1;33m";
const ROLE: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";

/// How this call prints.
pub(crate) struct Output {
    json: bool,
    color: bool,
    quiet: bool,
    progress: Shown,
    /// Lines are broken to be no wider.
    columns: Option<usize>,
}

/// What stands on standard output when a command fails and JSON was asked for.
#[derive(Serialize)]
struct JsonFailure<'f> {
    status: &'static str,
    error: &'f str,
}

/// One line: JSON on standard output, or text on standard error.
pub(crate) fn print_failure(json: bool, status: &'static str, error: &str) {
    if json {
        if let Ok(text) = serde_json::to_string(&JsonFailure { status, error }) {
            let _ = writeln!(io::stdout(), "{text}");
        }
    } else {
        let _ = writeln!(io::stderr(), "sessions-search: {}", one_line(error));
    }
}

impl Output {
    pub(crate) fn new(cli: &Cli) -> Self {
        let color = match cli.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        let progress = match cli.progress {
            ProgressChoice::Json => Shown::AsJson,
            ProgressChoice::Auto if !cli.quiet && io::stderr().is_terminal() => Shown::OnTerminal,
            ProgressChoice::Auto | ProgressChoice::Never => Shown::Nowhere,
        };
        Self { json: cli.json, color, quiet: cli.quiet, progress, columns: columns() }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// What becomes of progress.
    pub(crate) fn progress_shown(&self) -> Shown {
        self.progress
    }

    /// Begins a phase that may take long; it ends when what is given is dropped.
    pub(crate) fn progress(&self, phase: &str) -> Progress {
        Progress::new(self.progress, phase)
    }

    /// One line for people, on standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            Self::caution(text);
        }
    }

    /// The same where leaving it out would make the answer say something else, `--quiet` or not.
    pub(crate) fn caution(text: &str) {
        let _ = writeln!(io::stderr(), "{}", harmless(text));
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        print_failure(self.json, failure.status(), failure.text());
    }

    /// One JSON value and a newline.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(io::Error::from)?;
        self.text(&format!("{text}\n"))
    }

    /// Text as it stands; flushed, so that a reader of a pipe sees it at once.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// The same, through a pager where it is higher than the screen.
    fn page(&self, text: &str) -> Result<(), Failure> {
        if paged(text) { Ok(()) } else { self.text(text) }
    }

    fn style<'s>(&self, code: &'s str) -> &'s str {
        if self.color { code } else { "" }
    }

    /// `call` opens what is found; `None` where there is nothing to open. `why` is what is known of an empty answer.
    pub(crate) fn search(&self, answer: &SearchAnswer, call: Option<&Call>, why: Option<&str>) -> Result<(), Failure> {
        let mut text = String::new();
        for hit in &answer.results {
            self.hit(&mut text, hit, call);
        }
        if let Some(explanation) = &answer.explain {
            let _ = writeln!(
                text,
                "{}, {:.1} words on average",
                counted(explanation.documents, "message"),
                explanation.average_length
            );
            for piece in &explanation.pieces {
                let _ = writeln!(
                    text,
                    "  {}: in {}, weight {:.6}, tokens {}",
                    harmless(&piece.piece),
                    counted(piece.n, "message"),
                    piece.idf,
                    harmless(&piece.tokens.join(" "))
                );
            }
        }
        self.page(&text)?;
        if answer.truncated {
            self.note("there are more hits: raise --limit, or page with --offset");
        }
        if let Some(warning) = &answer.warning {
            Self::caution(&format!("note: {}", harmless(warning)));
        }
        match answer.reason {
            Some(EmptyReason::NoStore) => {
                self.note("there is no store yet: `import PATH` makes one, `import --discover` lists what there is");
            }
            Some(EmptyReason::NoSearchableWords) => {
                self.note("nothing to search for: give at least one word with a letter or digit");
            }
            Some(EmptyReason::NoVisibleSessions) => {
                self.note("no sessions here: check --agent and --session-key, or import some");
            }
            Some(EmptyReason::Indexing) => Self::caution("nothing found yet: sessions are still being indexed"),
            Some(EmptyReason::NoMatch) if why.is_some() => {
                self.note(&format!("nothing found: {}", why.unwrap_or_default()));
            }
            Some(_) => self.note("nothing found: every word must stand in one message; try fewer, or --prefix"),
            None => {}
        }
        Ok(())
    }

    fn hit(&self, text: &mut String, hit: &Hit, call: Option<&Call>) {
        let (dim, reset) = (self.style(DIM), self.style(RESET));
        let name = hit.label.as_deref().unwrap_or_else(|| hit.session_key.as_str());
        let head = [(BOLD, local_time(hit.timestamp)), (ROLE, hit.role.as_str().to_owned()), ("", one_line(name))];
        self.fields(text, &head);
        let mut line = String::new();
        let mut marks = Vec::new();
        let mut done = 0;
        for range in &hit.highlights {
            let (Some(before), Some(word)) = (hit.snippet.get(done..range.start), hit.snippet.get(range.clone()))
            else {
                continue;
            };
            line.push_str(&one_line(before));
            let start = line.len();
            line.push_str(&one_line(word));
            marks.push(start..line.len());
            done = range.end;
        }
        line.push_str(&one_line(hit.snippet.get(done..).unwrap_or_default()));
        self.indented(text, &line, &marks);
        if let Some(explanation) = &hit.explain {
            let _ = writeln!(
                text,
                "  {dim}score {:.6}, {}, counts {:?}{reset}",
                hit.score,
                counted(explanation.length.into(), "word"),
                explanation.f
            );
        }
        if let Some(call) = call {
            let place = shell_option("--session-id", hit.session_id.as_str())
                + &shell_option("--message-id", hit.message_id.as_str());
            let _ = writeln!(text, "  {dim}{}{reset}", call.history(hit.session_key.as_str(), &place));
        }
        text.push('\n');
    }

    /// What stands beside each other where there is room, else below, set in. No field is broken: it may be an id.
    fn fields(&self, to: &mut String, fields: &[(&str, String)]) {
        let mut used = 0;
        for (style, field) in fields.iter().filter(|(_, field)| !field.is_empty()) {
            let taken = width(field) + 2;
            if used == 0 {
                used = taken - 2;
            } else if self.columns.is_some_and(|columns| used + taken > columns) {
                to.push_str("\n  ");
                used = taken;
            } else {
                to.push_str("  ");
                used += taken;
            }
            let reset = if style.is_empty() { "" } else { RESET };
            let _ = write!(to, "{}{field}{}", self.style(style), self.style(reset));
        }
        to.push('\n');
    }

    /// Lines of a message, set in below its head.
    fn lines(&self, to: &mut String, text: &str) {
        for line in text.lines() {
            self.indented(to, &harmless(line), &[]);
        }
    }

    /// One line of text, set in, broken where it is too long, with what matched in colour.
    fn indented(&self, to: &mut String, text: &str, marks: &[Range<usize>]) {
        let whole = Range { start: 0, end: text.len() };
        let lines = self.columns.map_or_else(|| vec![whole], |columns| broken(text, columns - 2));
        for line in lines {
            to.push_str("  ");
            let mut done = line.start;
            for mark in marks {
                let (start, end) = (mark.start.max(done), mark.end.min(line.end));
                if start < end {
                    let _ = write!(
                        to,
                        "{}{}{}{}",
                        &text[done..start],
                        self.style(MATCH),
                        &text[start..end],
                        self.style(RESET)
                    );
                    done = end;
                }
            }
            to.push_str(&text[done..line.end]);
            to.push('\n');
        }
    }

    pub(crate) fn import(&self, summary: &ImportSummary) -> Result<(), Failure> {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}, {}: {} ({}), {} skipped, {} rejected",
            counted(summary.files, "file"),
            counted(summary.sessions, "session"),
            counted(summary.events, "event"),
            counted(summary.messages, "searchable message"),
            summary.skipped,
            summary.rejected_total
        );
        if summary.sessions_by_agent.len() > 1 {
            for (agent, count) in &summary.sessions_by_agent {
                let _ = writeln!(text, "  {} of agent {agent}", counted(*count, "session"));
            }
        }
        for (reason, count) in &summary.skipped_by_reason {
            let _ = writeln!(text, "  skipped {count}: {}", harmless(reason));
        }
        for skipped in summary.files_skipped.iter().take(SHOWN) {
            let _ = writeln!(text, "  file skipped: {}: {}", harmless(&skipped.path), harmless(&skipped.reason));
        }
        for (word, reports) in [("rejected", &summary.rejected), ("warning", &summary.warnings)] {
            for report in reports.iter().take(SHOWN) {
                let _ = writeln!(
                    text,
                    "  {word}: {}:{}: {}",
                    harmless(&report.path),
                    report.line,
                    harmless(&report.reason)
                );
            }
            if reports.len() > SHOWN {
                let _ = writeln!(text, "  … {} more; --json lists up to 1,000", reports.len() - SHOWN);
            }
        }
        self.text(&text)
    }

    pub(crate) fn preview(&self, preview: &ImportPreview) -> Result<(), Failure> {
        let mut text = String::new();
        for place in &preview.places {
            let (sessions, files) = (counted(place.sessions, "session"), counted(place.files, "file"));
            let _ = writeln!(
                text,
                "{}  {} of agent {}: {sessions} in {files}, {} bytes",
                harmless(&place.path),
                place.format,
                place.agent,
                place.bytes
            );
        }
        let (sessions, files) = (counted(preview.sessions, "session"), counted(preview.files, "file"));
        let skipped = counted(preview.files_skipped.len() as u64, "file");
        let _ = writeln!(text, "{sessions} in {files}, {} bytes; {skipped} would be skipped", preview.bytes);
        self.text(&text)
    }

    pub(crate) fn history(&self, page: &HistoryAnswer) -> Result<(), Failure> {
        let (bold, dim, role, reset) = (self.style(BOLD), self.style(DIM), self.style(ROLE), self.style(RESET));
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{bold}{}{reset} {dim}({}){reset}",
            harmless(&page.session_key),
            harmless(page.session_id.as_deref().unwrap_or("no window"))
        );
        for message in &page.messages {
            let here = page.anchor_id.is_some() && page.anchor_id == message.message_id;
            let _ = writeln!(
                text,
                "\n{bold}{}{reset}  {role}{}{reset}{}",
                local_time(message.timestamp),
                harmless(&message.role),
                if here { format!("  {}← here{reset}", self.style(MATCH)) } else { String::new() }
            );
            for block in message.blocks.iter().flatten() {
                self.block(&mut text, block);
            }
            if message.blocks.is_none() {
                self.lines(&mut text, &message.text);
            }
        }
        self.page(&text)?;
        if page.anchor_not_found() {
            self.note("that message is not on the session's active path: it was rewound, or is of another session");
        } else if page.messages.is_empty() {
            self.note("no messages");
        }
        if page.content_truncated || page.dropped_messages > 0 {
            let dropped = if page.dropped_messages > 0 {
                format!("; {} left out", counted(page.dropped_messages as u64, "message"))
            } else {
                String::new()
            };
            self.note(&format!("long texts are cut{dropped}: `export` writes them whole"));
        }
        Ok(())
    }

    /// A block that is text as text, any other with its type and name before it.
    fn block(&self, text: &mut String, block: &HistoryBlock) {
        if !matches!(block.kind.as_str(), "text" | "input_text" | "output_text") {
            let name = block.name.as_deref().map(|name| format!(" {}", harmless(name))).unwrap_or_default();
            let bytes = block.bytes.map(|bytes| format!(", {bytes} bytes left out")).unwrap_or_default();
            let _ =
                writeln!(text, "  {}[{}{name}{bytes}]{}", self.style(DIM), harmless(&block.kind), self.style(RESET));
        }
        self.lines(text, block.text.as_deref().unwrap_or_default());
    }

    pub(crate) fn sessions(&self, list: &SessionList) -> Result<(), Failure> {
        let mut text = String::new();
        for session in &list.sessions {
            let fields = [
                (BOLD, local_time(session.updated_at)),
                ("", one_line(session.session_key.as_str())),
                (DIM, one_line(session.session_id.as_str())),
                ("", counted(session.messages, "message")),
                ("", session.label.as_deref().map(one_line).unwrap_or_default()),
                (DIM, if session.archived { "archived".to_owned() } else { String::new() }),
            ];
            self.fields(&mut text, &fields);
        }
        self.page(&text)?;
        if list.sessions.is_empty() {
            self.note("no sessions");
        }
        Ok(())
    }

    pub(crate) fn status(&self, status: &StatusReport) -> Result<(), Failure> {
        let mut text = String::new();
        let _ = writeln!(text, "sessions   {}", status.sessions);
        let _ = writeln!(text, "events     {}", status.events);
        let _ = writeln!(text, "documents  {}", status.documents);
        let _ = writeln!(text, "analyzer   {}", harmless(&status.analyzer));
        let _ = writeln!(text, "schema     {}", harmless(&status.schema));
        let _ = writeln!(text, "watermark  {}", status.watermark);
        let _ = writeln!(text, "tail       {} documents", status.tail);
        for (part, bytes) in &status.bytes {
            let _ = writeln!(text, "bytes      {:>13} {part}", bytes);
        }
        for pending in &status.pending {
            let _ = writeln!(text, "pending    {} ({})", harmless(&pending.session_id), pending.reason);
        }
        self.text(&text)
    }

    pub(crate) fn held(&self, held: &HeldStatus) -> Result<(), Failure> {
        let mut text = format!("held by    {}\n", harmless(&held.holder));
        for (part, bytes) in &held.bytes {
            let _ = writeln!(text, "bytes      {bytes:>13} {part}");
        }
        self.text(&text)
    }
}

/// `1 session`, `2 sessions`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Reports of one kind shown to people.
const SHOWN: usize = 20;

/// Time in the local zone, to the minute.
fn local_time(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.as_millis()) {
        Ok(instant) if time.is_known() => instant.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
        // The last day of the year 9999 has no local time.
        _ if time.is_known() => time.to_string(),
        _ => "unknown time    ".to_owned(),
    }
}

/// Text of a transcript can't move the cursor, set the title or hide what stands beside it.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if is_control(c) && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// The same, line breaks and tabs shown as spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_control(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// C0, C1, separators of lines, and the marks that reorder text: all of them can change what a terminal shows elsewhere.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_are_made_harmless() {
        assert_eq!(harmless("a\x1b[2Jb\u{202e}c\u{9b}d\te"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\te");
        assert_eq!(one_line("a\nb\tc"), "a b c");
    }
}
