//! A session as the conversation that its active branch is, resets included.

use std::io;
use std::ops::ControlFlow;

use serde_json::Value;

use super::{Chosen, ExportFormat, ExportSummary, Stopped, read_to_its_end};
use crate::commit::View;
use crate::engine::history::HistoryMessage;
use crate::engine::rendered::{Rendered, is_text_kind};
use crate::export::{ConversationWriter, Heading, Part, Step, Turn};
use crate::store::EventRow;
use crate::transcript::{Redactor, TreeScan, sanitize};

pub(super) fn write(
    view: &View,
    session: &Chosen,
    format: ExportFormat,
    heading: &Heading<'_>,
    out: &mut dyn io::Write,
    summary: &mut ExportSummary,
    each: &mut dyn FnMut(u64, u64),
) -> Result<(), Stopped> {
    let redactor = view.pipeline.redactor();
    let label = heading.label.map(|label| redactor.redact(label));
    let heading = Heading { label: label.as_deref(), ..*heading };
    let writer = if format == ExportFormat::Html {
        ConversationWriter::html(out, &heading)
    } else {
        ConversationWriter::markdown(out, &heading)
    };
    let mut writer = writer.map_err(Stopped::Write)?;

    let mut scan = TreeScan::new();
    let read = view.snapshot.for_each_event_row(session.number, 0, |seq, row| {
        match row {
            Ok(row) => {
                summary.events += 1;
                each(1, row.raw.len() as u64);
                scan.push(seq, &row.tree);
            }
            Err(error) => summary.unreadable(&session.row, &error),
        }
        Ok(ControlFlow::Continue(()))
    });
    read_to_its_end(read, session, summary)?;
    for seq in scan.resolve().path {
        match view.snapshot.with_event(session.number, seq, |row| step(&row, redactor)) {
            Ok(Some(Some(step))) => writer.step(&step).map_err(Stopped::Write)?,
            Ok(_) => {}
            // Told of by the reading before.
            Err(crate::store::StoreError::Damaged { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    writer.end().map_err(Stopped::Write)
}

/// What a row of the path has to say.
fn step(row: &EventRow<'_>, redactor: &Redactor) -> Option<Step> {
    if row.tree.is_message {
        let rendered = Rendered::new(row, redactor, true, usize::MAX);
        return rendered.is_shown(true).then(|| Step::Turn(turn(rendered.message)));
    }
    let (line, _) = sanitize(row.normalised.unwrap_or(row.raw));
    let event: Value = serde_json::from_str(&line).ok()?;
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    match text("type")? {
        "compaction" | "branch_summary" => {
            let summary = text("summary").filter(|summary| !summary.trim().is_empty())?;
            Some(Step::Summary(redactor.redact(summary).into_owned()))
        }
        "reset" => Some(Step::Reset),
        _ => None,
    }
}

fn turn(message: HistoryMessage) -> Turn {
    let HistoryMessage { role, timestamp, text, blocks, .. } = message;
    let parts = match blocks {
        None => vec![Part::Text(text)],
        Some(blocks) => blocks
            .into_iter()
            .filter_map(|block| {
                if is_text_kind(&block.kind) {
                    return block.text.map(Part::Text);
                }
                let omitted_bytes = block.bytes;
                Some(Part::Aside { kind: block.kind, name: block.name, text: block.text, omitted_bytes })
            })
            .collect(),
    };
    Turn { role, timestamp, parts }
}
