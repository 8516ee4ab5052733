//! How the response to a request is framed.

use wire::{Method, RequestHead, Version};

/// What of a request determines the framing of its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub(crate) is_head: bool,
    pub(crate) version: Version,
    /// Whether the connection may stay open after this response.
    pub(crate) persistent: bool,
}

impl Framing {
    pub(crate) fn of(head: &RequestHead<'_>, persistent: bool) -> Framing {
        Framing {
            is_head: head.method == Method::Head,
            version: head.version,
            persistent,
        }
    }

    /// Whether a response is framed as most are: nothing of its head depends on the request.
    #[inline]
    pub(super) fn is_usual(self) -> bool {
        self.persistent && self.version == Version::Http11 && !self.is_head
    }
}
