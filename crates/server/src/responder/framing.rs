//! How the response to a request is framed.

use wire::{Method, RequestHead, Version};

const UPGRADE_REQUIRED: u16 = 426;

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
    /// The line `Connection` of a response with these other `lines`, if it has one. A response that names another protocol lists Upgrade there
    /// (RFC 9110 section 7.8).
    #[inline]
    pub(super) fn connection_line(self, status: u16, lines: &[u8]) -> &'static [u8] {
        let upgrades = status == UPGRADE_REQUIRED && names_upgrade(lines);
        match (self.version, self.persistent, upgrades) {
            (Version::Http2, ..) | (Version::Http11, true, false) => b"",
            (Version::Http11, true, true) => b"Connection: Upgrade\r\n",
            (Version::Http10, true, false) => b"Connection: keep-alive\r\n",
            (Version::Http10, true, true) => b"Connection: keep-alive, Upgrade\r\n",
            (_, false, false) => b"Connection: close\r\n",
            (_, false, true) => b"Connection: close, Upgrade\r\n",
        }
    }
}

#[cold]
fn names_upgrade(lines: &[u8]) -> bool {
    let mut lines = wire::field_lines(lines);
    lines.any(|(name, _)| name.eq_ignore_ascii_case(b"upgrade"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_426_that_names_a_protocol_says_that_it_is_about_the_connection() {
        const UPGRADE: &[u8] = b"A: b\r\nUpgrade: websocket\r\n";
        for (version, persistent, status, lines, expected) in [
            (
                Version::Http11,
                true,
                426,
                UPGRADE,
                "Connection: Upgrade\r\n",
            ),
            (
                Version::Http11,
                false,
                426,
                UPGRADE,
                "Connection: close, Upgrade\r\n",
            ),
            (
                Version::Http10,
                true,
                426,
                UPGRADE,
                "Connection: keep-alive, Upgrade\r\n",
            ),
            (
                Version::Http10,
                false,
                426,
                UPGRADE,
                "Connection: close, Upgrade\r\n",
            ),
            (Version::Http11, true, 426, b"A: b\r\n", ""),
            (
                Version::Http11,
                false,
                426,
                b"A: b\r\n",
                "Connection: close\r\n",
            ),
            (Version::Http2, false, 426, UPGRADE, ""),
        ] {
            let framing = Framing {
                is_head: false,
                version,
                persistent,
            };
            let line = framing.connection_line(status, lines);
            assert_eq!(String::from_utf8_lossy(line), expected, "{version:?}");
        }
    }
}
