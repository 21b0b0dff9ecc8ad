//! The steps of an answer, each a type of its own: judged, then redacted, then cut to its bounds.
//!
//! A [`Visible`] needs an [`Admission`], which only the rules give. A [`Redacted`] is made from a [`Visible`] alone and an
//! [`Answer`] from a [`Redacted`] alone, so no path of the code can leave a step out. None of them can be made outside:
//!
//! ```compile_fail
//! let answer = sessions_search::Answer { value: "unredacted" };
//! ```
//! ```compile_fail
//! let answer = sessions_search::Answer::from("unredacted");
//! ```
//! ```compile_fail
//! fn answer(page: sessions_search::HistoryAnswer) -> sessions_search::Answer<sessions_search::HistoryAnswer> {
//!     page.into()
//! }
//! ```

use std::ops::Deref;

use serde::{Serialize, Serializer};

use super::rules::Admission;
use crate::transcript::Redactor;

/// Something of sessions that the requester may see.
#[derive(Debug, Clone)]
pub struct Visible<T> {
    value: T,
}

/// The same after redaction.
#[derive(Debug, Clone)]
pub struct Redacted<T> {
    value: T,
}

/// The same within its bounds: what a requester gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<T> {
    value: T,
}

/// What can be cut to the bounds of an answer.
pub trait Bounded {
    /// Cuts it.
    fn cut(&mut self);
}

impl<T> Visible<T> {
    /// What was judged.
    pub(crate) fn judged(_proof: Admission, value: T) -> Self {
        Self { value }
    }

    /// What holds only parts that were judged one by one.
    pub(crate) fn collected(parts: impl IntoIterator<Item = Self>) -> Visible<Vec<T>> {
        Visible { value: parts.into_iter().map(|part| part.value).collect() }
    }

    /// Something else made from it, still to be redacted.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Visible<U> {
        Visible { value: change(self.value) }
    }

    /// The same, borrowed.
    pub(crate) fn as_ref(&self) -> Visible<&T> {
        Visible { value: &self.value }
    }

    /// What may be looked at to find more; nothing of it leaves but through [`Visible::redact`].
    pub(crate) fn get(&self) -> &T {
        &self.value
    }

    /// Makes what is shown from what is stored, with the redactor of the store it lies in.
    pub(crate) fn redact<U, E>(
        self,
        redactor: &Redactor,
        show: impl FnOnce(T, &Redactor) -> Result<U, E>,
    ) -> Result<Redacted<U>, E> {
        Ok(Redacted { value: show(self.value, redactor)? })
    }
}

impl<T> Redacted<T> {
    /// Goes on with what is redacted, as when the answers of several agents become one.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Redacted<U> {
        Redacted { value: change(self.value) }
    }

    /// One of many.
    pub(crate) fn collected(parts: impl IntoIterator<Item = Self>) -> Redacted<Vec<T>> {
        Redacted { value: parts.into_iter().map(|part| part.value).collect() }
    }
}

impl<T: Bounded> Redacted<T> {
    /// Cuts it to its bounds.
    pub(crate) fn bound(mut self) -> Answer<T> {
        self.value.cut();
        Answer { value: self.value }
    }
}

impl<T> Answer<T> {
    /// The answer alone.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Serialize> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}
