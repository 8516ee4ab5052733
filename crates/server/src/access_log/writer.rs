//! The thread that writes the access log.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::format::Form;
use super::lines_of;
use super::loss::{Lose, Loss};

/// Failures within this time of a report are not reported, only counted.
const PAUSE: Duration = Duration::from_secs(5);

/// What is written to a pipe at once is in one piece, also if others write to it (pipe(7), PIPE_BUF).
const PIPE_BYTES: usize = 4096;

/// What the opening of a file counts as in the queue, in bytes, so that few descriptors wait there.
const REOPEN_BYTES: usize = 65_536;

/// Where the lines go.
pub(super) trait Sink: Write {
    /// Most bytes that are written in one piece although other workers write too.
    fn piece_bytes_max(&self) -> usize;

    /// Waits until it accepts more: it is a pipe that another process has made non-blocking.
    fn wait(&mut self) -> std::io::Result<()>;
}

impl Sink for File {
    fn piece_bytes_max(&self) -> usize {
        let kind = self.metadata().map(|found| found.file_type());
        match kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()) {
            true => PIPE_BYTES,
            false => usize::MAX,
        }
    }

    fn wait(&mut self) -> std::io::Result<()> {
        net::wait_until_writable(self.as_fd())
    }
}

/// What the writing thread does next.
pub(super) enum Work<F> {
    /// Writes whole lines.
    Lines(Vec<u8>),
    /// Continues in another file.
    Reopen(F),
}

impl<F> Work<F> {
    /// How many lines it has.
    pub(super) fn lines(&self) -> u64 {
        match self {
            Work::Lines(block) => lines_of(block),
            Work::Reopen(_) => 0,
        }
    }

    /// The memory that it holds, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Work::Lines(block) => block.capacity(),
            Work::Reopen(_) => REOPEN_BYTES,
        }
    }
}

/// Writes blocks as they arrive. While the log cannot be written (closed pipe, full disk), its lines are counted and lost. The loss is
/// reported once; serving goes on.
pub(super) fn write_blocks<F: Sink>(
    file: F,
    works: &Receiver<Work<F>>,
    form: &Form,
    losses: &impl Lose,
) {
    let mut log = Log {
        piece_bytes_max: file.piece_bytes_max(),
        file,
        lost: 0,
        is_torn: false,
    };
    let mut news = News::new(losses);
    for work in works {
        let (lines, bytes) = (work.lines(), work.bytes());
        match work {
            Work::Lines(block) => log.write(&block, form, &mut news),
            Work::Reopen(next) => log.reopen(next),
        }
        losses.done(lines, bytes);
    }
    news.ended();
}

/// The log, and what it does not mention yet.
struct Log<F> {
    file: F,
    piece_bytes_max: usize,
    /// Lines that it lacks.
    lost: u64,
    /// It ends within a line.
    is_torn: bool,
}

impl<F: Sink> Log<F> {
    fn reopen(&mut self, file: F) {
        self.piece_bytes_max = file.piece_bytes_max();
        self.file = file;
        self.is_torn = false;
    }

    /// Writes a block of lines, after the number of those that were lost before.
    fn write<L: Lose>(&mut self, block: &[u8], form: &Form, news: &mut News<'_, L>) {
        if self.lost > 0 {
            let notice = lost_lines(self.lost, form, self.is_torn).into_bytes();
            if self.write_pieces(&notice).0 > 0 {
                self.lost += news.lose(block);
                return;
            }
            news.recovered();
            self.lost = 0;
        }
        let (rest, error) = self.write_pieces(block);
        if let Some(error) = error {
            news.failed(&error);
        }
        self.lost += news.lose(block.get(block.len() - rest..).unwrap_or_default());
    }

    /// Writes as much of a block as possible; returns how many bytes are left, and why.
    fn write_pieces(&mut self, block: &[u8]) -> (usize, Option<std::io::Error>) {
        let (mut left, mut error) = (block, None);
        while !left.is_empty() && error.is_none() {
            let (piece, after) = left.split_at(piece_bytes(left, self.piece_bytes_max));
            let rest;
            (rest, error) = write_most(&mut self.file, piece);
            self.is_torn = is_torn_after(piece, rest, self.is_torn);
            left = match rest {
                0 => after,
                _ => left.get(piece.len() - rest..).unwrap_or_default(),
            };
        }
        (left.len(), error)
    }
}

/// How many of these bytes are written at once: as many whole lines as fit, but at least one.
fn piece_bytes(lines: &[u8], bytes_max: usize) -> usize {
    let Some(first) = lines.get(..bytes_max) else {
        return lines.len();
    };
    memchr::memrchr(b'\n', first)
        .or_else(|| memchr::memchr(b'\n', lines))
        .map_or(lines.len(), |end| end + 1)
}

/// What is reported of losses: a few lines, however often the file can be written and then not.
struct News<'a, L> {
    losses: &'a L,
    /// Lost lines that no report has mentioned.
    lines: u64,
    /// The last report said that the log cannot be written.
    is_down: bool,
    rests_until: Option<Instant>,
}

impl<L: Lose> News<'_, L> {
    fn new(losses: &L) -> News<'_, L> {
        News {
            losses,
            lines: 0,
            is_down: false,
            rests_until: None,
        }
    }

    /// Counts the lines in `bytes`, which are lost, and returns how many they are.
    fn lose(&mut self, bytes: &[u8]) -> u64 {
        let lines = lines_of(bytes);
        self.losses.add(lines);
        self.lines += lines;
        lines
    }

    fn failed(&mut self, error: &std::io::Error) {
        let now = Instant::now();
        if self.is_down || self.rests_until.is_some_and(|until| now < until) {
            return;
        }
        self.is_down = true;
        self.rests_until = Some(now + PAUSE);
        self.losses.report(format!(
            "the access log cannot be written: {error}; its lines are lost until it can be"
        ));
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.is_down) {
            let lines = std::mem::take(&mut self.lines);
            self.losses.report(format!(
                "the access log is written again; {lines} of its lines were lost"
            ));
        }
    }

    fn ended(&self) {
        if self.lines > 0 {
            let lines = self.lines;
            self.losses
                .report(format!("{lines} lines of the access log were lost"));
        }
    }
}

/// Writes as much as possible; returns how many bytes are left, and why.
fn write_most(file: &mut impl Sink, bytes: &[u8]) -> (usize, Option<std::io::Error>) {
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(written @ 1..) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if let Err(error) = file.wait() {
                    return (rest.len(), Some(error));
                }
            }
            Ok(_) => return (rest.len(), Some(ErrorKind::WriteZero.into())),
            Err(error) => return (rest.len(), Some(error)),
        }
    }
    (0, None)
}

/// Whether the log ends within a line, once all of `bytes` but the last `rest` were written.
fn is_torn_after(bytes: &[u8], rest: usize, was_torn: bool) -> bool {
    match bytes.get(..bytes.len() - rest).unwrap_or_default() {
        [] => was_torn,
        written => !written.ends_with(b"\n"),
    }
}

/// The line in the log that reports lost lines.
fn lost_lines(count: u64, form: &Form, is_torn: bool) -> String {
    let end = if is_torn { "\n" } else { "" };
    end.to_owned() + &form.notice(count, Loss::Unwritten)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::Mutex;
    use std::sync::mpsc::{channel, sync_channel};

    use super::*;
    use crate::access_log::LogFormat;

    /// A disk with room for a number of bytes, and the bytes written to it.
    struct Disk<'a>(&'a Mutex<(usize, Vec<u8>)>);

    impl Write for Disk<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let (room, written) = &mut *self.0.lock().unwrap();
            let count = bytes.len().min(*room);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            *room -= count;
            written.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Disk<'_> {
        fn piece_bytes_max(&self) -> usize {
            usize::MAX
        }

        fn wait(&mut self) -> std::io::Result<()> {
            unreachable!("it is full, or it accepts something")
        }
    }

    /// What was said, and what happens then.
    #[derive(Default)]
    struct Said<'a> {
        lines: Cell<u64>,
        reports: RefCell<Vec<String>>,
        then: Option<&'a dyn Fn()>,
    }

    impl Lose for Said<'_> {
        fn done(&self, _: u64, _: usize) {}

        fn add(&self, lines: u64) {
            self.lines.set(self.lines.get() + lines);
        }

        fn report(&self, line: String) {
            self.reports.borrow_mut().push(line);
            if let Some(then) = self.then {
                then();
            }
        }
    }

    #[test]
    fn a_pipe_gets_whole_lines_of_at_most_what_is_written_in_one_piece() {
        assert_eq!(piece_bytes(b"one\ntwo\nthree\n", usize::MAX), 14);
        assert_eq!(piece_bytes(b"one\ntwo\nthree\n", 14), 14);
        assert_eq!(piece_bytes(b"one\ntwo\nthree\n", 13), 8);
        assert_eq!(piece_bytes(b"one\ntwo\nthree\n", 8), 8);
        assert_eq!(piece_bytes(b"one\ntwo\nthree\n", 7), 4);
        assert_eq!(piece_bytes(b"a line\nanother\n", 3), 7);
        assert_eq!(piece_bytes(b"no end", 3), 6);
    }

    #[test]
    fn lines_of_several_workers_are_whole_in_one_pipe() {
        let (reader, pipe) = std::io::pipe().unwrap();
        std::thread::scope(|scope| {
            for letter in *b"ab" {
                let file = File::from(std::os::fd::OwnedFd::from(pipe.try_clone().unwrap()));
                let (queue, works) = channel();
                let mut line = vec![letter; 149];
                line.push(b'\n');
                for _ in 0..8 {
                    queue.send(Work::Lines(line.repeat(500))).unwrap();
                }
                drop(queue);
                scope.spawn(move || write_blocks(file, &works, &template(), &Said::default()));
            }
            drop(pipe);
            // The pipe is full whenever it is read, so a longer write would be in pieces.
            let text = std::io::read_to_string(reader).unwrap();
            let is_whole = |line: &str| {
                line.len() == 149 && line.bytes().all(|byte| Some(byte) == line.bytes().next())
            };
            assert_eq!(text.lines().count(), 8000);
            assert_eq!(text.lines().find(|line| !is_whole(line)), None);
        });
    }

    fn template() -> Form {
        LogFormat::combined().form
    }

    #[test]
    fn lines_that_a_full_disk_loses_are_counted_and_reported_once() {
        let disk = Mutex::new((7, Vec::new()));
        let said = Said::default();
        let (queue, blocks) = channel();
        for block in ["one\ntwo\nthree\n", "four\n", "five\n"] {
            queue.send(Work::Lines(block.into())).unwrap();
        }
        drop(queue);
        write_blocks(Disk(&disk), &blocks, &template(), &said);
        assert_eq!(disk.lock().unwrap().1, b"one\ntwo");
        let lost = "the access log cannot be written: no storage space; its lines are lost until it can be";
        assert_eq!(
            *said.reports.borrow(),
            [lost, "4 lines of the access log were lost"]
        );
        assert_eq!(said.lines.get(), 4);
    }

    #[test]
    fn a_disk_that_has_room_again_gets_the_count() {
        let disk = Mutex::new((7, Vec::new()));
        let (queue, blocks) = sync_channel(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for block in ["one\ntwo\n", "three\n", "four\n"] {
                    queue.send(Work::Lines(block.into())).unwrap();
                }
            });
            // The disk has room again once the loss is reported.
            let then = || disk.lock().unwrap().0 = 1000;
            let said = Said {
                then: Some(&then),
                ..Said::default()
            };
            write_blocks(Disk(&disk), &blocks, &template(), &said);
            assert_eq!(said.lines.get(), 1);
        });
        assert_eq!(
            disk.lock().unwrap().1,
            b"one\ntwo\nbolide: 1 access log lines were lost: they could not be written\nthree\nfour\n"
        );
    }

    #[test]
    fn a_count_that_does_not_fit_is_written_again_as_a_line_of_its_own() {
        let disk = Mutex::new((7, Vec::new()));
        let (queue, blocks) = sync_channel(0);
        let said = Said::default();
        std::thread::scope(|scope| {
            let disk = &disk;
            scope.spawn(move || {
                queue.send(Work::Lines(b"one\ntwo\n".to_vec())).unwrap();
                // The writer is at the next block only when the one before is done.
                queue.send(Work::Lines(Vec::new())).unwrap();
                disk.lock().unwrap().0 = 9;
                queue.send(Work::Lines(b"three\n".to_vec())).unwrap();
                queue.send(Work::Lines(Vec::new())).unwrap();
                disk.lock().unwrap().0 = 1000;
                queue.send(Work::Lines(b"four\n".to_vec())).unwrap();
            });
            write_blocks(Disk(disk), &blocks, &template(), &said);
        });
        let written = String::from_utf8(disk.lock().unwrap().1.clone()).unwrap();
        assert_eq!(
            written,
            "one\ntwo\nbolide: \nbolide: 2 access log lines were lost: they could not be written\nfour\n"
        );
        assert_eq!((said.reports.borrow().len(), said.lines.get()), (2, 2));
    }

    #[test]
    fn a_log_that_is_opened_again_continues_with_a_whole_line() {
        let disks = [(10, Vec::new()), (1000, Vec::new())].map(Mutex::new);
        let (queue, works) = channel();
        for work in [
            Work::Lines(b"one\ntwo\n".to_vec()),
            Work::Lines(b"three\n".to_vec()),
            Work::Reopen(Disk(&disks[1])),
            Work::Lines(b"four\n".to_vec()),
        ] {
            queue.send(work).unwrap();
        }
        drop(queue);
        write_blocks(Disk(&disks[0]), &works, &template(), &Said::default());
        assert_eq!(disks[0].lock().unwrap().1, b"one\ntwo\nth");
        assert_eq!(
            disks[1].lock().unwrap().1,
            b"bolide: 1 access log lines were lost: they could not be written\nfour\n"
        );
    }
}
