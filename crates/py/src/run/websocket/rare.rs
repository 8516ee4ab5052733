//! What an idle WebSocket does not have.

use super::departed::Departed;
use super::end::End;
use super::topics::Subscribed;

/// Allocated when it is needed first.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) end: Option<End>,
    /// What the application has closed it with.
    pub(super) closing: Option<End>,
    /// What has arrived of a client that has left.
    pub(super) departed: Option<Departed>,
    pub(super) subscribed: Subscribed,
}

impl Rare {
    /// That of a WebSocket that its application closes: nothing else of it is needed any more.
    pub(super) fn closed_with(code: u16, reason: &str) -> Box<Rare> {
        let reason = reason.to_owned();
        Box::new(Rare {
            closing: Some(End { code, reason }),
            ..Rare::default()
        })
    }
}
