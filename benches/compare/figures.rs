//! What was measured, as it is kept in `benches/results/*.json`.

use serde::{Deserialize, Serialize};

use crate::targets::{Target, target};

/// What a figure counts, and so which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    Milliseconds,
    Megabytes,
    PerSecond,
    /// Times as long as a raw fdatasync of 4 KiB in a file that is there.
    Fdatasyncs,
}

/// One operation on both engines.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub group: String,
    pub name: String,
    pub unit: Unit,
    /// Medians, where something was repeated.
    pub ours: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fts5: Option<f64>,
    /// 99th percentiles, from a hundred repeats on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_p99: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fts5_p99: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<usize>,
    /// Of the code that was measured.
    #[serde(default)]
    pub commit: String,
    /// Messages that match, of a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<u64>,
}

impl Row {
    pub fn new(group: &str, name: impl Into<String>, unit: Unit, ours: f64, fts5: Option<f64>) -> Self {
        let (group, name) = (group.to_owned(), name.into());
        Self {
            group,
            name,
            unit,
            ours,
            fts5,
            ours_p99: None,
            fts5_p99: None,
            repeats: None,
            commit: String::new(),
            matches: None,
        }
    }

    /// How many times better ours is.
    pub fn ratio(&self) -> Option<f64> {
        self.fts5.map(|fts5| match self.unit {
            Unit::Milliseconds | Unit::Megabytes | Unit::Fdatasyncs => fts5 / self.ours,
            Unit::PerSecond => self.ours / fts5,
        })
    }
}

/// One run over one corpus.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// A word: the file's name.
    pub corpus: String,
    pub messages: usize,
    pub sessions: usize,
    /// Year, month and day.
    pub date: String,
    pub machine: String,
    /// Programs runnable on average over the five minutes before the end, against the number of processors.
    pub load_average: f64,
    pub versions: String,
    pub rows: Vec<Row>,
}

impl Figures {
    pub fn is_generated(&self) -> bool {
        self.corpus.starts_with("generated")
    }

    /// `10 k`, `1 M`; of other corpora their name.
    pub fn size_name(&self) -> String {
        match self.messages {
            _ if !self.is_generated() => self.corpus.clone(),
            n if n.is_multiple_of(1_000_000) => format!("{} M", n / 1_000_000),
            n if n.is_multiple_of(1_000) => format!("{} k", n / 1_000),
            n => n.to_string(),
        }
    }

    /// The commits that rows were measured at.
    pub fn commits(&self) -> String {
        let mut commits: Vec<&str> = Vec::new();
        self.rows.iter().map(|row| row.commit.as_str()).for_each(|commit| {
            if !commits.contains(&commit) {
                commits.push(commit);
            }
        });
        commits.join(", ")
    }

    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// What is asked of a row, in the generated corpus.
    pub fn target(&self, row: &Row) -> Option<Target> {
        let store_bytes = self.row("whole store bytes").map_or(0.0, |row| row.ours * 1e6);
        if self.is_generated() { target(row, self.messages, store_bytes) } else { None }
    }
}
