//! Sending parts of files.
//!
//! Only the response that is next in order sends; the file of a later one waits, open, in its exchange. A file that is shorter than
//! announced, or cannot be read, truncates the connection: the peer expects more.

use net::FileSent;

use super::H1;
use crate::app::{Abort, App};
use crate::link::{Fate, Turn};

/// Bytes of files that one connection sends before others have their turn.
pub(super) const TURN_BYTES: u64 = 1 << 20;

/// The result of sending from a file.
pub(super) enum FileStep {
    /// No file is next.
    None,
    /// A file is complete: what follows it is next.
    Over,
    /// It stops here for now.
    Stopped(Fate),
}

impl H1 {
    /// Sends from the next file, if one is next. `budget` is the number of bytes left in this turn.
    pub(super) fn send_file<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        budget: &mut u64,
    ) -> FileStep {
        let Some(front) = self.queue.front_mut() else {
            return FileStep::None;
        };
        let exchange = &mut front.exchange;
        let Some(part) = exchange.out.file() else {
            return FileStep::None;
        };
        while part.length > 0 {
            if *budget == 0 {
                return FileStep::Stopped(Fate::Again);
            }
            let length = part.length.min(*budget);
            match turn.link.send_file(turn.context, turn.app, part, length) {
                FileSent::Bytes(count) => {
                    part.offset += count;
                    part.length -= count;
                    *budget -= count;
                    exchange.record.add_content(count);
                }
                FileSent::Blocked => return FileStep::Stopped(Fate::Open),
                FileSent::Unreadable => {
                    self.cut_short_file(turn);
                    return FileStep::Over;
                }
                FileSent::Broken(_) => {
                    return FileStep::Stopped(self.abandon(turn, Abort::Disconnected));
                }
            }
        }
        exchange.out.end_file();
        FileStep::Over
    }

    #[cold]
    fn cut_short_file<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let Some(front) = self.queue.front_mut() else {
            return;
        };
        let exchange = &mut front.exchange;
        let is_ended = exchange.is_ended();
        if let Some(part) = exchange.out.file() {
            turn.app.file_was_short(exchange.id, part);
        }
        exchange.cut();
        if !is_ended {
            turn.abort(exchange.id, Abort::Disconnected);
        }
    }
}
