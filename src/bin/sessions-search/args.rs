//! The command line as typed (interface.md). Fixed: add, never break.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::caller::CallerArgs;

/// Keep AI agents' conversation transcripts and find words in them.
#[derive(Debug, Parser)]
#[command(name = "sessions-search", version, max_term_width = 100)]
pub(crate) struct Cli {
    /// Root folder of the store [default: $SESSIONS_SEARCH_STORE, else the platform's data folder]
    #[arg(long, global = true, help_heading = "Options of every command", value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// Whose sessions [default: main]
    #[arg(long, global = true, help_heading = "Options of every command", value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Print exactly one JSON value (one a line for `append`)
    #[arg(long, global = true, help_heading = "Options of every command")]
    pub(crate) json: bool,
    /// Colour the output
    #[arg(long, global = true, help_heading = "Options of every command", value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    /// Print no progress and no notes; what makes an answer incomplete is still said
    #[arg(long, global = true, help_heading = "Options of every command")]
    pub(crate) quiet: bool,
    /// How far long commands have come, on standard error
    #[arg(long, global = true, help_heading = "Options of every command", value_enum, default_value_t = ProgressChoice::Auto, value_name = "HOW")]
    pub(crate) progress: ProgressChoice,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Whether an agent was named, not left at its default.
    pub(crate) fn names_agent(&self) -> bool {
        self.agent.is_some()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// When standard output is a terminal and NO_COLOR is not set
    Auto,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressChoice {
    /// A bar when standard error is a terminal
    Auto,
    /// One JSON object a line, at most two a second, also with --quiet
    Json,
    /// Nothing
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the store explicitly; otherwise the first writing command makes it with the defaults
    Init(InitArgs),
    /// Read transcripts from files or folders; safe to repeat
    Import(ImportArgs),
    /// Import as transcripts grow, until interrupted
    Watch(WatchArgs),
    /// Find words in user and assistant messages
    Search(SearchArgs),
    /// Show the conversation around a hit, or its newest part
    History(HistoryArgs),
    /// List sessions
    Sessions(SessionsArgs),
    /// Append events (JSONL on standard input) to a session
    Append(AppendArgs),
    /// Delete a session, or every window of a session key
    Delete(DeleteArgs),
    /// Give every window of a session key another key
    Rekey(RekeyArgs),
    /// Take a session out of listings; it stays searchable
    Archive(KeyArgs),
    /// Put an archived session back into listings
    Unarchive(KeyArgs),
    /// Delete sessions without activity since a time
    Prune(PruneArgs),
    /// Show what the store holds and what waits
    Status,
    /// Serve the tools to a model: MCP on standard input and output
    Mcp(McpArgs),
    /// Print what a shell needs to complete commands and options
    Completions(CompletionsArgs),
    /// Print the manual page, for `man -l -`
    Man,
    /// Compare index and transcripts both ways; changes nothing
    Verify(VerifyArgs),
    /// Give back the space of what was deleted
    Compact,
    /// Copy the transcripts into another folder, while the store is in use
    Backup(BackupArgs),
    /// Write sessions out: their lines, or the conversation to read
    Export(ExportArgs),
    /// Index everything anew, with another analyzer or redaction where asked for
    Reindex(ReindexArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// How texts become words [default: unicode-word]
    #[arg(long, value_enum)]
    pub(crate) analyzer: Option<AnalyzerChoice>,
    /// Mask credentials before anything is indexed or shown [default: on]
    #[arg(long, value_enum)]
    pub(crate) redaction: Option<OnOff>,
    /// A further pattern to mask, `pattern` or `/pattern/flags`; may be repeated
    #[arg(long, value_name = "P")]
    pub(crate) redact_pattern: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReindexArgs {
    /// How texts become words from now on [default: as now]
    #[arg(long, value_enum)]
    pub(crate) analyzer: Option<AnalyzerChoice>,
    /// Whether credentials are masked from now on [default: as now]
    #[arg(long, value_enum)]
    pub(crate) redaction: Option<OnOff>,
    /// The further patterns to mask, in place of those chosen before; may be repeated
    #[arg(long, value_name = "P")]
    pub(crate) redact_pattern: Vec<String>,
    /// Wait until it is done; else it goes on with the next commands
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum AnalyzerChoice {
    /// Words as SQLite FTS5 cuts them
    #[default]
    UnicodeWord,
    /// The same, and any part of a run of Chinese, Japanese, Korean or Thai
    Cjk,
}

impl AnalyzerChoice {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::UnicodeWord => "unicode-word",
            Self::Cjk => "cjk",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    On,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Transcript files or folders; an OpenClaw state folder too
    #[arg(required_unless_present = "discover", value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) choice: ImportChoice,
    /// Import nothing: list what there is to import, in the standard places or below PATH
    #[arg(long)]
    pub(crate) discover: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Transcript files or folders
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) choice: ImportChoice,
    /// Seconds between two looks
    #[arg(long, value_name = "S", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) interval: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ImportChoice {
    /// The format of the files
    #[arg(long, value_enum, default_value_t = FormatChoice::Auto)]
    pub(crate) format: FormatChoice,
    /// Import sessions again that were deleted on purpose
    #[arg(long)]
    pub(crate) revive: bool,
    /// Import archives of deleted sessions too
    #[arg(long)]
    pub(crate) include_deleted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatChoice {
    Auto,
    Openclaw,
    Pi,
    ClaudeCode,
    Codex,
    GeminiCli,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// The words, all of which must stand in one message; after `--` anything is a word
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) words: Vec<String>,
    /// Only this session key (or the key of this session id); may be repeated
    #[arg(long, value_name = "K")]
    pub(crate) session_key: Vec<String>,
    /// Hits at most, up to 10,000
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole_number)]
    pub(crate) limit: usize,
    /// Hits to pass over first
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole_number)]
    pub(crate) offset: usize,
    /// Only this role
    #[arg(long, value_enum)]
    pub(crate) role: Option<RoleChoice>,
    /// Only from this time on: RFC 3339 with its zone, YYYY-MM-DD (UTC), milliseconds, or 7d, 24h ago
    #[arg(long, value_name = "T")]
    pub(crate) since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "T")]
    pub(crate) until: Option<String>,
    /// Best match first, or newest first
    #[arg(long, value_enum, default_value_t = OrderChoice::Relevance)]
    pub(crate) order: OrderChoice,
    /// The last word may be the start of a word
    #[arg(long)]
    pub(crate) prefix: bool,
    /// Search these transcript files without a store of one's own
    #[arg(long, value_name = "PATH")]
    pub(crate) from: Vec<PathBuf>,
    /// With --from: how texts become words (a store knows what it was made with)
    #[arg(long, value_enum, requires = "from", default_value_t)]
    pub(crate) analyzer: AnalyzerChoice,
    /// Wait for background indexing first
    #[arg(long)]
    pub(crate) wait: bool,
    /// FTS5's own answer where it is stricter: a piece without letters or digits matches nothing
    #[arg(long)]
    pub(crate) fts5_strict: bool,
    /// Show n, idf, f and length for each piece and hit
    #[arg(long)]
    pub(crate) explain: bool,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

fn whole_number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "give a whole number, such as 20".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleChoice {
    User,
    Assistant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderChoice {
    Relevance,
    Recent,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Session key, or session id
    pub(crate) key: String,
    /// Open the conversation around this message
    #[arg(long, value_name = "M")]
    pub(crate) message_id: Option<String>,
    /// The window of the key that holds the message
    #[arg(long, value_name = "S")]
    pub(crate) session_id: Option<String>,
    /// Messages at most, up to 1,000
    #[arg(long, value_name = "N", default_value = "50", value_parser = whole_number)]
    pub(crate) limit: usize,
    /// Open the conversation this many messages before the message, and as many after it
    #[arg(long, value_name = "N", value_parser = whole_number, requires = "message_id", conflicts_with = "limit")]
    pub(crate) context: Option<usize>,
    /// Page back: skip this many of the newest messages
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub(crate) offset: Option<usize>,
    /// Keep tool results
    #[arg(long)]
    pub(crate) include_tools: bool,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// List archived sessions instead of active ones
    #[arg(long)]
    pub(crate) archived: bool,
    /// Sessions at most
    #[arg(long, value_name = "N", default_value = "50", value_parser = whole_number)]
    pub(crate) limit: usize,
    /// Sessions to pass over first
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole_number)]
    pub(crate) offset: usize,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Answer as the operator: every session of the agent
    #[arg(long, conflicts_with = "caller")]
    pub(crate) operator: bool,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// The session key; made when it is new
    #[arg(long, value_name = "K")]
    pub(crate) session_key: String,
    /// The window; without it the key's current one, else a new UUID
    #[arg(long, value_name = "S")]
    pub(crate) session_id: Option<String>,
    /// Events per durable transaction
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: u32,
    /// The session that spawned this one
    #[arg(long, value_name = "K")]
    pub(crate) spawned_by: Option<String>,
    /// An explicit parent session
    #[arg(long, value_name = "K")]
    pub(crate) parent: Option<String>,
    /// A name for people
    #[arg(long, value_name = "L")]
    pub(crate) label: Option<String>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DeleteTarget {
    /// Every window of this key
    #[arg(long, value_name = "K")]
    pub(crate) session_key: Option<String>,
    /// This one window
    #[arg(long, value_name = "S")]
    pub(crate) session_id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RekeyArgs {
    /// The key now
    pub(crate) old: String,
    /// The key from now on
    pub(crate) new: String,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The session key
    pub(crate) key: String,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Last activity before this time: RFC 3339, YYYY-MM-DD, milliseconds, or 90d ago
    #[arg(long, value_name = "T")]
    pub(crate) older_than: String,
    /// Skip the question at a terminal
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: DeleteTarget,
    /// Skip the question at a terminal
    #[arg(long)]
    pub(crate) yes: bool,
    /// Also erase the text from index, free pages and set-aside files
    #[arg(long)]
    pub(crate) purge: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Also compare every posting of the index, and answers to real queries with a plain scan
    #[arg(long)]
    pub(crate) deep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The folder of the copy: a store root of its own
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only this session key (or session id) [default: every session]
    #[arg(long, value_name = "K")]
    pub(crate) session_key: Option<String>,
    /// The folder: DIR/agents/<agent>/sessions/<session id>.jsonl [default: one session to standard output]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What to write
    #[arg(long, value_enum, default_value_t = ExportFormatChoice::Jsonl)]
    pub(crate) format: ExportFormatChoice,
    /// Replace files that are there already
    #[arg(long)]
    pub(crate) overwrite: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormatChoice {
    /// The stored lines, byte for byte, secrets included
    Jsonl,
    /// The conversation, credentials masked as in `history`
    Markdown,
    /// The same as a page that a browser opens
    Html,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}
