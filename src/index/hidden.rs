//! What the index holds and must not answer: dead ordinals and documents, and rebuilds that are not published yet.

use rpds::{HashTrieMapSync, HashTrieSetSync};

use crate::model::{DocNumber, Ordinal};

/// A persistent set: cloning is cheap, so every view pins its own.
#[derive(Debug, Clone, Default)]
pub struct Hidden {
    ordinals: HashTrieSetSync<u32>,
    /// Single documents, each with its session's ordinal.
    documents: HashTrieMapSync<u64, u32>,
    /// Grows with every change, so that what was worked out from one state is known to be stale.
    version: u64,
}

impl Hidden {
    /// Hides every document of an ordinal, those still to come included.
    pub fn hide_ordinal(&mut self, ordinal: Ordinal) {
        self.ordinals.insert_mut(ordinal.0);
        self.version += 1;
    }

    /// Shows an ordinal's documents: a rebuild is published, or the index no longer holds the ordinal.
    pub fn show_ordinal(&mut self, ordinal: Ordinal) {
        if self.ordinals.remove_mut(&ordinal.0) {
            self.version += 1;
        }
    }

    /// Hides one document of an ordinal.
    pub fn hide_document(&mut self, number: DocNumber, ordinal: Ordinal) {
        self.documents.insert_mut(number.0, ordinal.0);
        self.version += 1;
    }

    /// Forgets a document: the index no longer holds it.
    pub fn forget_document(&mut self, number: DocNumber) {
        if self.documents.remove_mut(&number.0) {
            self.version += 1;
        }
    }

    /// Whether nothing is hidden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ordinals.is_empty() && self.documents.is_empty()
    }

    /// Whether this document must not be found.
    #[must_use]
    pub fn hides(&self, ordinal: Ordinal, number: DocNumber) -> bool {
        self.ordinals.contains(&ordinal.0) || self.documents.contains_key(&number.0)
    }

    /// The hidden ordinals, in no order.
    pub fn ordinals(&self) -> impl Iterator<Item = Ordinal> + '_ {
        self.ordinals.iter().map(|&n| Ordinal(n))
    }

    /// The hidden single documents with their ordinals, in no order.
    pub fn documents(&self) -> impl Iterator<Item = (DocNumber, Ordinal)> + '_ {
        self.documents.iter().map(|(&number, &ordinal)| (DocNumber(number), Ordinal(ordinal)))
    }

    /// Grows with every change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }
}
