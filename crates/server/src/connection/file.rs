//! Parts of files on their way to the peer.
//!
//! Only the answer that is next in order sends; a file behind it waits, open, in its exchange. A file that is shorter than was said,
//! or cannot be read, cuts the connection: its peer was promised more.

use net::FileSent;

use super::{Connection, Fate};
use crate::app::{Abort, App};
use crate::worker::Core;

/// Bytes of files that one connection sends before others have their turn.
pub(super) const TURN_BYTES: u64 = 1 << 20;

/// What sending from a file came to.
pub(super) enum FileStep {
    /// No file is next.
    None,
    /// A file is done with: what stands behind it is next.
    Over,
    /// It stops here for now.
    Stopped(Fate),
}

impl Connection {
    /// Sends from the file that is next, if one is. `budget` counts the bytes that this turn has left.
    pub(super) fn send_file<A: App>(
        &mut self,
        core: &mut Core,
        app: &mut A,
        budget: &mut u64,
    ) -> FileStep {
        let Some(front) = self.pending.front_mut() else {
            return FileStep::None;
        };
        let Some(part) = front.out.file() else {
            return FileStep::None;
        };
        while part.length > 0 {
            if *budget == 0 {
                return FileStep::Stopped(Fate::Again);
            }
            let length = part.length.min(*budget);
            match self.transport.send_file(&part.file, part.offset, length) {
                FileSent::Bytes(count) => {
                    part.offset += count;
                    part.length -= count;
                    *budget -= count;
                    self.sent_ms = core.clock.now_ms();
                    if let Some(record) = &mut front.record {
                        record.content_bytes += count;
                    }
                }
                FileSent::Blocked => {
                    self.is_full = true;
                    return FileStep::Stopped(Fate::Open);
                }
                FileSent::Unreadable => {
                    self.cut_short_file(app);
                    return FileStep::Over;
                }
                FileSent::Broken(_) => {
                    return FileStep::Stopped(self.close(core, app, Abort::Disconnected));
                }
            }
        }
        front.out.end_file();
        FileStep::Over
    }

    #[cold]
    fn cut_short_file<A: App>(&mut self, app: &mut A) {
        let Some(front) = self.pending.front_mut() else {
            return;
        };
        let missing_bytes = front.out.file().map_or(0, |part| part.length);
        let is_ended = front.is_ended();
        front.cut();
        app.file_was_short(front.id, missing_bytes);
        if !is_ended {
            app.abort(front.id, Abort::Disconnected);
        }
    }
}
