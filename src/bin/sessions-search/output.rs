//! Answers on standard output, everything else on standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;
use sessions_search::{
    EmptyReason, HeldStatus, HistoryAnswer, HistoryBlock, Hit, ImportPreview, ImportSummary, SearchAnswer, SessionList,
    StatusReport,
};

use crate::args::{Cli, ColorChoice, ProgressChoice};
use crate::failure::Failure;
use crate::progress::{Audience, Progress};
use crate::screen;
use crate::text::{
    RESET, Span, clipped, columns, counted, harmless, local_time, one_line, set_in, shell_option, shell_word, sized,
};

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const MATCH: &str = "\x1b[1;33m";
const ROLE: &str = "\x1b[36m";

/// How this call prints.
pub(crate) struct Output {
    json: bool,
    color: bool,
    quiet: bool,
    progress: ProgressChoice,
    /// Columns that lines are set to; `None` leaves them whole.
    width: Option<usize>,
}

/// How the program is called to work at the same place, on the same eyes: for commands that are printed.
pub(crate) struct Call {
    pub(crate) program: String,
    /// The options that say on whose eyes.
    pub(crate) eyes: String,
}

impl Call {
    /// The command that opens a conversation, with further options.
    pub(crate) fn history(&self, key: &str, options: &str) -> String {
        let Self { program, eyes } = self;
        if key.starts_with('-') {
            return format!("{program} history{options}{eyes} -- {}", shell_word(key));
        }
        format!("{program} history {}{options}{eyes}", shell_word(key))
    }
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
        Self { json: cli.json, color, quiet: cli.quiet, progress: cli.progress, width: screen::width() }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Work that may take a while; `unit` is what is counted of it.
    pub(crate) fn progress(&self, phase: &str, unit: &'static str) -> Progress {
        Progress::new(self.audience(), phase, unit)
    }

    /// Who is told how far work is.
    pub(crate) fn audience(&self) -> Audience {
        match self.progress {
            ProgressChoice::Json => Audience::Program,
            ProgressChoice::Auto if !self.quiet && io::stderr().is_terminal() => Audience::Person,
            ProgressChoice::Auto | ProgressChoice::Never => Audience::Nobody,
        }
    }

    /// One line for people, on standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.caution(text);
        }
    }

    /// The same where leaving it out would make the answer say something else, `--quiet` or not.
    #[expect(clippy::unused_self, reason = "one way to speak")]
    pub(crate) fn caution(&self, text: &str) {
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
        if screen::paged(text) { Ok(()) } else { self.text(text) }
    }

    /// The head of a hit, message or session: its time, a word, and a name as far as there is room.
    fn head(&self, to: &mut String, time: &str, style: &str, word: &str, name: &str) {
        let (bold, reset) = (self.style(BOLD), self.style(RESET));
        let (style, end) = if style.is_empty() { ("", "") } else { (style, reset) };
        let taken = columns(time) + 2 + columns(word) + 2;
        let name = clipped(name, self.width.map(|width| width.saturating_sub(taken).max(8)));
        let between = if name.is_empty() { "" } else { "  " };
        let _ = writeln!(to, "{bold}{time}{reset}  {style}{word}{end}{between}{name}");
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
            self.caution(&format!("note: {}", harmless(warning)));
        }
        match answer.reason {
            Some(EmptyReason::NoStore) => {
                self.note(
                    "there is no store yet: `import PATH` makes one, `import --discover` lists what there is to import",
                );
            }
            Some(EmptyReason::NoSearchableWords) => {
                self.note("nothing to search for: give at least one word with a letter or digit");
            }
            Some(EmptyReason::NoVisibleSessions) => {
                self.note("no sessions here: check --agent and --session-key, or import some");
            }
            Some(EmptyReason::Indexing) => self.caution("nothing found yet: sessions are still being indexed"),
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
        self.head(text, &local_time(hit.timestamp), self.style(ROLE), hit.role.as_str(), &one_line(name));
        let mut parts: Vec<(String, &str)> = Vec::new();
        let mut done = 0;
        for range in &hit.highlights {
            let (Some(before), Some(word)) = (hit.snippet.get(done..range.start), hit.snippet.get(range.clone()))
            else {
                continue;
            };
            parts.push((one_line(before), ""));
            parts.push((one_line(word), self.style(MATCH)));
            done = range.end;
        }
        parts.push((one_line(hit.snippet.get(done..).unwrap_or_default()), ""));
        let spans: Vec<Span<'_>> = parts.iter().map(|(text, style)| Span { text, style }).collect();
        set_in(text, &spans, self.width);
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
            // In one line whatever the width: it is there to be copied.
            let _ = writeln!(text, "  {dim}{}{reset}", call.history(hit.session_key.as_str(), &place));
        }
        text.push('\n');
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
                "{}  {} of agent {}: {sessions} in {files}, {}",
                harmless(&place.path),
                place.format,
                place.agent,
                sized(place.bytes)
            );
        }
        let (sessions, files) = (counted(preview.sessions, "session"), counted(preview.files, "file"));
        let skipped = counted(preview.files_skipped.len() as u64, "file");
        let _ = writeln!(text, "{sessions} in {files}, {}; {skipped} would be skipped", sized(preview.bytes));
        self.text(&text)
    }

    pub(crate) fn history(&self, page: &HistoryAnswer) -> Result<(), Failure> {
        let (bold, dim, reset) = (self.style(BOLD), self.style(DIM), self.style(RESET));
        let mut text = String::new();
        let (key, id) = (one_line(&page.session_key), one_line(page.session_id.as_deref().unwrap_or("no window")));
        let is_wide = self.width.is_none_or(|width| columns(&key) + columns(&id) + 3 <= width);
        let between = if is_wide { " " } else { "\n  " };
        let _ = writeln!(text, "{bold}{key}{reset}{between}{dim}({id}){reset}");
        for message in &page.messages {
            let here = page.anchor_id.is_some() && page.anchor_id == message.message_id;
            text.push('\n');
            let role = one_line(&message.role);
            if here {
                let head = format!("{bold}{}{reset}", local_time(message.timestamp));
                let (role_style, mark) = (self.style(ROLE), self.style(MATCH));
                let _ = writeln!(text, "{head}  {role_style}{role}{reset}  {mark}← here{reset}");
            } else {
                self.head(&mut text, &local_time(message.timestamp), self.style(ROLE), &role, "");
            }
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

    /// Lines of a message, set in below its head.
    fn lines(&self, to: &mut String, text: &str) {
        for line in text.lines() {
            set_in(to, &[Span { text: &harmless(line), style: "" }], self.width);
        }
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
        let (dim, reset) = (self.style(DIM), self.style(RESET));
        let mut text = String::new();
        for session in &list.sessions {
            let label = session.label.as_deref().map(one_line).unwrap_or_default();
            let name = if session.archived { format!("{label} (archived)").trim_start().to_owned() } else { label };
            let messages = counted(session.messages, "message");
            self.head(&mut text, &local_time(session.updated_at), "", &messages, &name);
            let (key, id) = (one_line(session.session_key.as_str()), one_line(session.session_id.as_str()));
            let is_wide = self.width.is_none_or(|width| columns(&key) + columns(&id) + 4 <= width);
            let between = if is_wide { "  " } else { "\n  " };
            let _ = writeln!(text, "  {key}{between}{dim}{id}{reset}");
        }
        self.page(&text)?;
        if list.sessions.is_empty() {
            self.note("no sessions");
        }
        Ok(())
    }

    pub(crate) fn status(&self, status: &StatusReport) -> Result<(), Failure> {
        let mut text = String::new();
        let row = |text: &mut String, name: &str, value: &str| {
            let _ = writeln!(text, "{name:<11} {value}");
        };
        row(&mut text, "sessions", &status.sessions.to_string());
        row(&mut text, "messages", &format!("{} searchable, of {}", status.documents, counted(status.events, "event")));
        row(
            &mut text,
            "indexing",
            &match status.pending.len() as u64 {
                0 => "done".to_owned(),
                waiting => format!("{} wait", counted(waiting, "session")),
            },
        );
        for pending in &status.pending {
            let (id, done) = (one_line(&pending.session_id), counted(pending.documents, "message"));
            row(
                &mut text,
                "",
                &format!("{id}: {}, {done} done of {}", pending.reason, counted(pending.events, "event")),
            );
        }
        row(&mut text, "in memory", &format!("{} after the last checkpoint", counted(status.tail, "message")));
        row(&mut text, "watermark", &status.watermark.to_string());
        row(&mut text, "analyzer", &harmless(&status.analyzer));
        row(&mut text, "schema", &harmless(&status.schema));
        self.sizes(&mut text, &status.bytes);
        self.text(&text)
    }

    pub(crate) fn held(&self, held: &HeldStatus) -> Result<(), Failure> {
        let mut text = format!("{:<11} {}\n", "held by", one_line(&held.holder));
        self.sizes(&mut text, &held.bytes);
        self.text(&text)
    }

    #[expect(clippy::unused_self, reason = "one shape for all parts of an answer")]
    fn sizes(&self, to: &mut String, bytes: &std::collections::BTreeMap<&'static str, u64>) {
        for (part, bytes) in bytes {
            let _ = writeln!(to, "{part:<11} {}", sized(*bytes));
        }
    }
}

/// Reports of one kind shown to people.
const SHOWN: usize = 20;
