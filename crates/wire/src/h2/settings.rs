//! SETTINGS (RFC 9113 6.5): what an endpoint announces to its peer.

use super::error::{ErrorCode, Violation};
use super::frame::{FRAME_BYTES_MAX, STREAM_MAX};

/// SETTINGS_HEADER_TABLE_SIZE.
pub const HEADER_TABLE_SIZE: u16 = 1;
/// SETTINGS_ENABLE_PUSH.
pub const ENABLE_PUSH: u16 = 2;
/// SETTINGS_MAX_CONCURRENT_STREAMS.
pub const MAX_CONCURRENT_STREAMS: u16 = 3;
/// SETTINGS_INITIAL_WINDOW_SIZE.
pub const INITIAL_WINDOW_SIZE: u16 = 4;
/// SETTINGS_MAX_FRAME_SIZE.
pub const MAX_FRAME_SIZE: u16 = 5;
/// SETTINGS_MAX_HEADER_LIST_SIZE.
pub const MAX_HEADER_LIST_SIZE: u16 = 6;
/// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441 3).
pub const ENABLE_CONNECT_PROTOCOL: u16 = 8;
/// SETTINGS_NO_RFC7540_PRIORITIES (RFC 9218 2.1).
pub const NO_RFC7540_PRIORITIES: u16 = 9;

/// Length of one setting.
pub const SETTING_BYTES: usize = 6;
/// The initial window of streams until the peer announces another one, and of the connection (RFC 9113 6.9.2).
pub const WINDOW_BYTES: u32 = 65_535;
/// The initial size of the table for header compression (RFC 9113 6.5.2).
pub const TABLE_BYTES: u32 = 4096;

/// The payload of a SETTINGS frame, whose values are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingsPayload<'a>(&'a [u8]);

impl<'a> SettingsPayload<'a> {
    /// Checks every value.
    ///
    /// # Errors
    /// If the connection must end.
    pub(super) fn new(payload: &'a [u8]) -> Result<SettingsPayload<'a>, Violation> {
        let settings = SettingsPayload(payload);
        for (identifier, value) in settings.values() {
            check(identifier, value)?;
        }
        Ok(settings)
    }

    /// Identifiers and values in their order, which is that of application.
    pub fn values(self) -> impl Iterator<Item = (u16, u32)> + use<'a> {
        self.0.chunks_exact(SETTING_BYTES).map(|setting| {
            let identifier = setting.first_chunk().copied().unwrap_or_default();
            let value = setting.last_chunk().copied().unwrap_or_default();
            (u16::from_be_bytes(identifier), u32::from_be_bytes(value))
        })
    }
}

fn check(identifier: u16, value: u32) -> Result<(), Violation> {
    let is_frame_size = |value| (FRAME_BYTES_MAX as u32..=0x00ff_ffff).contains(&value);
    let violated = match identifier {
        ENABLE_PUSH if value > 1 => "ENABLE_PUSH is neither 0 nor 1",
        ENABLE_CONNECT_PROTOCOL if value > 1 => "ENABLE_CONNECT_PROTOCOL is neither 0 nor 1",
        NO_RFC7540_PRIORITIES if value > 1 => "NO_RFC7540_PRIORITIES is neither 0 nor 1",
        MAX_FRAME_SIZE if !is_frame_size(value) => "MAX_FRAME_SIZE is out of its range",
        INITIAL_WINDOW_SIZE if value > STREAM_MAX => {
            return Err(Violation::of_connection(
                ErrorCode::FLOW_CONTROL_ERROR,
                "INITIAL_WINDOW_SIZE is larger than a window can be",
            ));
        }
        _ => return Ok(()),
    };
    Err(Violation::of_connection(
        ErrorCode::PROTOCOL_ERROR,
        violated,
    ))
}
