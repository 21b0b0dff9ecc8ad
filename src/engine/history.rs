//! Opening a conversation: its newest part, a page further back, or the surroundings of one message.

use std::ops::Range;

use serde::Serialize;

use crate::access::stages::Bounded;
use crate::commit::View;
use crate::limits::{DEFAULT_HISTORY_LIMIT, MAX_HISTORY_BYTES, MAX_HISTORY_LIMIT, MAX_HISTORY_TEXT_UTF16};
use crate::model::{IdError, KeyAliases, MessageId, SessionId, SessionKey, Timestamp};
use crate::store::{StoreError, TranscriptNumber};
use crate::transcript::{Redactor, TreeScan};

use super::Engine;
use super::rendered::Rendered;

/// Which part of which conversation. [`HistoryRequest::new`] gives the defaults.
#[derive(Debug, Clone)]
pub struct HistoryRequest {
    /// Session key, or a session id that stands for its key (D23).
    pub key: String,
    /// Open the surroundings of this message.
    pub message_id: Option<String>,
    /// The window of the key that holds the message.
    pub session_id: Option<String>,
    /// Messages at most: 1 to 1,000, 50 by default.
    pub limit: usize,
    /// Page back: pass over this many of the newest messages. Giving it, 0 too, is offset paging.
    pub offset: Option<usize>,
    /// Keep tool calls and results.
    pub include_tools: bool,
}

impl HistoryRequest {
    /// The newest part of a conversation.
    #[must_use]
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            message_id: None,
            session_id: None,
            limit: DEFAULT_HISTORY_LIMIT,
            offset: None,
            include_tools: false,
        }
    }
}

/// Why there is no history to show.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A limit out of range. Never clamped.
    #[error("limit must be a positive integer, at most {MAX_HISTORY_LIMIT}")]
    Limit,
    /// A text that is no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Neither a key nor a session id of this store.
    #[error("no session {given:?}: give a session key or session id as `sessions` lists them")]
    UnknownSession {
        /// The text as given.
        given: String,
    },
    /// Incognito sessions are never stored, and not to be asked for (D19).
    #[error("{key} is an incognito session: not to be read")]
    Incognito {
        /// The key.
        key: SessionKey,
    },
    /// A session id without a message id.
    #[error("a session id needs a message id: it names the window that holds the message")]
    WindowWithoutMessage,
    /// Both a message and an offset.
    #[error("give a message id or an offset, not both")]
    OffsetWithMessage,
    /// The session id is no window of the key.
    #[error("session {session_id} is not a window of {key}")]
    NotAWindow {
        /// The session id as given.
        session_id: String,
        /// The key it was asked under.
        key: String,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether the message asked for is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchor {
    /// It is among `messages`.
    Found,
    /// It is missing or off the active path; the page is empty, never the newest tail (D12).
    NotFound,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryMessage {
    /// Its id; messages without one can't be searched or anchored.
    pub message_id: Option<String>,
    /// Its role as written.
    pub role: String,
    /// When; 0 when unknown.
    pub timestamp: Timestamp,
    /// The text blocks joined by newlines: redacted, each cut at 4,000 UTF-16 units.
    pub text: String,
    /// The blocks, where there is more than text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<HistoryBlock>>,
}

/// One block of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryBlock {
    /// Its type as written.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its text, redacted and cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether data was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<bool>,
    /// Its decoded size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A page of a conversation, oldest message first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HistoryAnswer {
    /// The key.
    pub session_key: String,
    /// The window shown; null when the key has none.
    pub session_id: Option<String>,
    /// The messages.
    pub messages: Vec<HistoryMessage>,
    /// Whether the message asked for is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Anchor>,
    /// Whether anything was dropped or cut.
    pub truncated: bool,
    /// Messages dropped to stay within 80 KiB.
    pub dropped_messages: usize,
    /// Whether a text was cut.
    pub content_truncated: bool,
    /// Whether a text was redacted.
    pub content_redacted: bool,
    /// Bytes of `messages` as JSON.
    pub bytes: usize,
    /// The offset asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// The offset of the page before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    /// Whether there is a page before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    /// Messages in all, after the tool filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_messages: Option<usize>,
    /// The message asked for, for marking it.
    #[serde(skip)]
    pub anchor_id: Option<String>,
}

impl HistoryAnswer {
    /// Whether a message was asked for that is not there.
    #[must_use]
    pub fn anchor_not_found(&self) -> bool {
        self.anchor == Some(Anchor::NotFound)
    }
}

/// What a page shows of the messages of a window.
enum Part {
    Newest,
    Offset(usize),
    Around(MessageId),
}

impl HistoryRequest {
    /// Whether the request is within its bounds, which no store is needed to tell. [`Engine::history`] asks the same.
    ///
    /// # Errors
    /// [`HistoryError`] of bad input.
    pub fn check(&self) -> Result<(), HistoryError> {
        if !(1..=MAX_HISTORY_LIMIT).contains(&self.limit) {
            return Err(HistoryError::Limit);
        }
        self.part().map(drop)
    }

    fn part(&self) -> Result<Part, HistoryError> {
        Ok(match (&self.message_id, &self.session_id, self.offset) {
            (Some(_), _, Some(_)) => return Err(HistoryError::OffsetWithMessage),
            (None, Some(_), _) => return Err(HistoryError::WindowWithoutMessage),
            (Some(id), _, None) => Part::Around(MessageId::parse(id)?),
            (None, None, Some(offset)) => Part::Offset(offset),
            (None, None, None) => Part::Newest,
        })
    }
}

impl HistoryAnswer {
    fn empty(key: &SessionKey, part: &Part) -> Self {
        let anchor_id = match part {
            Part::Around(id) => Some(id.as_str().to_owned()),
            _ => None,
        };
        let (offset, total) = match part {
            Part::Offset(offset) => (Some(*offset), Some(0)),
            _ => (None, None),
        };
        Self {
            session_key: key.as_str().to_owned(),
            session_id: None,
            messages: Vec::new(),
            anchor: anchor_id.as_ref().map(|_| Anchor::NotFound),
            truncated: false,
            dropped_messages: 0,
            content_truncated: false,
            content_redacted: false,
            bytes: 2,
            offset,
            next_offset: None,
            has_more: total.map(|_| false),
            total_messages: total,
            anchor_id,
        }
    }

    /// What a key without a session has, where there is no store to look into.
    pub(super) fn none(key: &SessionKey, request: &HistoryRequest) -> Result<Self, HistoryError> {
        match &request.session_id {
            Some(given) => Err(HistoryError::NotAWindow { session_id: given.clone(), key: key.as_str().to_owned() }),
            None => Ok(Self::empty(key, &request.part()?)),
        }
    }
}

impl Bounded for HistoryAnswer {
    fn cut(&mut self) {
        // A page is made within its bounds: the anchor must survive, which can't be told any more here.
        debug_assert!(self.bytes <= MAX_HISTORY_BYTES, "a history page is larger than it may be");
    }
}

impl Engine {
    /// Opens a conversation.
    ///
    /// # Errors
    /// [`HistoryError`]: bad input, unknown session, or an unreadable store. An unknown message is an answer with
    /// `anchor: "not_found"`.
    pub fn history(&self, request: &HistoryRequest) -> Result<HistoryAnswer, HistoryError> {
        request.check()?;
        self.read(|view| {
            let key = self.key_of(view, &request.key)?;
            self.history_of(view, &key, request, view.pipeline.redactor())
        })
    }

    /// The same for a key that is known; one without a session has an empty history.
    pub(super) fn history_of(
        &self,
        view: &View,
        key: &SessionKey,
        request: &HistoryRequest,
        redactor: &Redactor,
    ) -> Result<HistoryAnswer, HistoryError> {
        let part = request.part()?;
        let windows = view.snapshot.windows(key)?;
        let current = view.snapshot.current_window(key)?;
        let candidates = match &request.session_id {
            Some(given) => vec![window_of(view, key, given)?],
            None if matches!(part, Part::Around(_)) => {
                // The id may stand in any window of the key: the current one first, then newest to oldest.
                current.into_iter().chain(windows.into_iter().rev().filter(|w| Some(*w) != current)).collect()
            }
            None => current.into_iter().collect(),
        };
        page(view, key, &candidates, &part, request, redactor)
    }

    fn key_of(&self, view: &View, given: &str) -> Result<SessionKey, HistoryError> {
        let key = SessionKey::parse(given)?;
        if key.is_incognito() {
            return Err(HistoryError::Incognito { key });
        }
        if view.snapshot.current_window(&key)?.is_some() {
            return Ok(key);
        }
        if let Ok(main) = KeyAliases::default().stored(&self.agent, &key)
            && view.snapshot.current_window(&main)?.is_some()
        {
            return Ok(main);
        }
        let by_id = match SessionId::parse(given) {
            Ok(id) => view.snapshot.transcript(&id)?.and_then(|transcript| view.sessions.get(transcript)),
            Err(_) => None,
        };
        by_id.map(|row| row.session_key.clone()).ok_or_else(|| HistoryError::UnknownSession { given: given.to_owned() })
    }
}

fn page(
    view: &View,
    key: &SessionKey,
    windows: &[TranscriptNumber],
    part: &Part,
    request: &HistoryRequest,
    redactor: &Redactor,
) -> Result<HistoryAnswer, HistoryError> {
    let mut answer = HistoryAnswer::empty(key, part);
    for &transcript in windows {
        let Some(session) = view.sessions.get(transcript) else { continue };
        answer.session_id.get_or_insert_with(|| session.session_id.as_str().to_owned());
        let conversation = Conversation::read(view, transcript, request.include_tools, part)?;
        let Some((range, anchor)) = conversation.choose(part, request.limit) else { continue };
        answer.session_id = Some(session.session_id.as_str().to_owned());
        fill(&mut answer, view, transcript, &conversation, (range, anchor), redactor)?;
        if let Part::Offset(offset) = part {
            let total = conversation.seqs.len();
            let shown_from = total - offset.min(&total) - answer.messages.len();
            answer.offset = Some(*offset);
            answer.total_messages = Some(total);
            answer.has_more = Some(shown_from > 0);
            answer.next_offset = (shown_from > 0).then_some(total - shown_from);
        }
        return Ok(answer);
    }
    Ok(answer)
}

/// Shows the messages of `range`, one of which may be the anchor.
fn fill(
    answer: &mut HistoryAnswer,
    view: &View,
    transcript: TranscriptNumber,
    conversation: &Conversation,
    (range, anchor): (Range<usize>, Option<usize>),
    redactor: &Redactor,
) -> Result<(), HistoryError> {
    let mut rendered = Vec::with_capacity(range.len());
    for &seq in &conversation.seqs[range.clone()] {
        let message = view.snapshot.with_event(transcript, seq, |row| {
            Rendered::new(&row, redactor, conversation.include_tools, MAX_HISTORY_TEXT_UTF16)
        })?;
        rendered.push(message.ok_or_else(|| StoreError::damaged("an event of the active path is missing"))?);
    }
    let sizes: Vec<usize> = rendered.iter().map(|r| json_len(&r.message) + 1).collect();
    let kept = keep_within(&sizes, anchor.map(|a| a - range.start), MAX_HISTORY_BYTES - 2);
    answer.dropped_messages = rendered.len() - kept.len();
    answer.anchor = anchor.map(|_| Anchor::Found);
    for rendered in rendered.into_iter().skip(kept.start).take(kept.len()) {
        answer.content_truncated |= rendered.truncated;
        answer.content_redacted |= rendered.redacted;
        answer.messages.push(rendered.message);
    }
    if let [only] = answer.messages.as_mut_slice()
        && json_len(only) + 2 > MAX_HISTORY_BYTES
    {
        only.text = "[message omitted: larger than a history page may be]".to_owned();
        only.blocks = None;
        answer.content_truncated = true;
    }
    answer.bytes = 1 + answer.messages.iter().map(|message| json_len(message) + 1).sum::<usize>().max(1);
    answer.truncated = answer.dropped_messages > 0 || answer.content_truncated;
    Ok(())
}

fn window_of(view: &View, key: &SessionKey, given: &str) -> Result<TranscriptNumber, HistoryError> {
    let id = SessionId::parse(given)?;
    let transcript = view.snapshot.transcript(&id)?;
    transcript
        .filter(|number| view.sessions.get(*number).is_some_and(|row| row.session_key == *key))
        .ok_or_else(|| HistoryError::NotAWindow { session_id: given.to_owned(), key: key.as_str().to_owned() })
}

fn json_len<T: Serialize>(value: &T) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

/// Which of the messages stay within `budget` bytes: grown from the anchor outward, older and newer in turn, or
/// without one from the newest back. One always stays.
fn keep_within(sizes: &[usize], anchor: Option<usize>, budget: usize) -> Range<usize> {
    let Some(last) = sizes.len().checked_sub(1) else { return 0..0 };
    let start = anchor.unwrap_or(last).min(last);
    let mut kept = start..start + 1;
    let mut used = sizes[start];
    loop {
        let mut grown = false;
        if kept.start > 0 && used + sizes[kept.start - 1] <= budget {
            kept.start -= 1;
            used += sizes[kept.start];
            grown = true;
        }
        if kept.end < sizes.len() && used + sizes[kept.end] <= budget {
            used += sizes[kept.end];
            kept.end += 1;
            grown = true;
        }
        if !grown {
            return kept;
        }
    }
}

/// The messages of one window, after the tool filter, oldest first.
struct Conversation {
    seqs: Vec<u64>,
    anchor: Option<usize>,
    include_tools: bool,
}

impl Conversation {
    fn read(view: &View, transcript: TranscriptNumber, include_tools: bool, part: &Part) -> Result<Self, StoreError> {
        let mut scan = TreeScan::new();
        let mut shown = std::collections::HashSet::new();
        let mut anchor_seq = None;
        view.snapshot.for_each_event(transcript, 0, |seq, row| {
            scan.push(seq, &row.tree);
            if row.tree.is_message {
                let rendered = Rendered::new(&row, &Redactor::identity(), include_tools, MAX_HISTORY_TEXT_UTF16);
                if rendered.is_shown(include_tools) {
                    shown.insert(seq);
                }
                if let Part::Around(id) = part
                    && rendered.message.message_id.as_deref() == Some(id.as_str())
                {
                    anchor_seq = Some(seq);
                }
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        let resolution = scan.resolve();
        let from = match part {
            Part::Newest => resolution.history_start,
            Part::Offset(_) => 0,
            Part::Around(_) => {
                // A message of the present view keeps that view; one before it opens the interval that holds it.
                let start = resolution.history_start;
                let in_view = resolution.path[start..].iter().any(|seq| Some(*seq) == anchor_seq);
                if in_view { start } else { 0 }
            }
        };
        let seqs: Vec<u64> = resolution.path[from..].iter().copied().filter(|seq| shown.contains(seq)).collect();
        let anchor = anchor_seq.and_then(|wanted| seqs.iter().position(|&seq| seq == wanted));
        Ok(Self { seqs, anchor, include_tools })
    }

    /// The messages to show, and which of them is the anchor. `None`: the anchor is not here.
    fn choose(&self, part: &Part, limit: usize) -> Option<(Range<usize>, Option<usize>)> {
        let total = self.seqs.len();
        match part {
            Part::Newest => Some((total.saturating_sub(limit)..total, None)),
            Part::Offset(offset) => {
                let end = total.saturating_sub(*offset);
                Some((end.saturating_sub(limit)..end, None))
            }
            Part::Around(_) => {
                let anchor = self.anchor?;
                // Contract 0.2b.9: floor((limit − 1) / 2) before it, the rest after, shifted to stay full.
                let start = anchor.saturating_sub((limit - 1) / 2).min(total.saturating_sub(limit));
                Some((start..(start + limit).min(total), Some(anchor)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_anchor_survives_the_byte_cap() {
        assert_eq!(keep_within(&[40, 40, 40, 40, 40], Some(2), 130), 1..4);
        assert_eq!(keep_within(&[40, 400, 40], Some(1), 130), 1..2);
        assert_eq!(keep_within(&[40, 40, 40], None, 90), 1..3);
        assert_eq!(keep_within(&[], None, 90), 0..0);
    }
}
