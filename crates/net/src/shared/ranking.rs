//! Titles, each with how often it was counted and a sum of times, that one process writes and another one reads, without locks, messages or
//! files.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crate::shared::{Place, TITLE_WORDS, shared};

/// Titles that are kept: as many as fill a page.
const PLACES: usize = 16;
/// A title without additions for so long gives way first.
const RECENT_MS: u64 = 10_000;
/// A reader tries so often to find a place that is not being written: a writer needs some nanoseconds, unless it has ended meanwhile.
const READS_MAX: u32 = 1000;

/// What was counted under a title.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ranked {
    /// As added, as far as there is room for it.
    pub title: Vec<u8>,
    /// How often.
    pub count: u64,
    /// The sum of all times, in nanoseconds.
    pub total_ns: u64,
    /// Since when it has its place, in milliseconds of the monotonic clock: if it had given way before, this differs.
    pub since_ms: u64,
}

/// The titles of one process with the greatest means, created before it is forked. Only one thread may add. Any process may read at any time.
#[derive(Clone, Copy)]
pub struct Ranking(&'static [Place]);

impl Ranking {
    /// More bytes of a title are not kept.
    pub const TITLE_BYTES_MAX: usize = TITLE_WORDS * size_of::<u64>();

    /// Without titles. It exists as long as the process, so one that is no longer used is [cleared](Ranking::clear) and used again.
    ///
    /// # Errors
    /// If the process or the system has no memory left.
    pub fn new() -> io::Result<Ranking> {
        shared(PLACES).map(Ranking)
    }

    /// Adds a time to a title, at `now_ms` of a monotonic clock.
    ///
    /// If there is no place for a title, it gets that of the one with the smallest mean, among those of which nothing was added recently if
    /// there are any.
    pub fn add(self, title: &[u8], took_ns: u64, now_ms: u64) {
        let words = words_of(title);
        let own = self.0.iter().find(|place| place.has(&words));
        let smallest = || self.0.iter().min_by_key(|place| place.rank(now_ms));
        if let Some(place) = own.or_else(smallest) {
            place.add(&words, own.is_some(), took_ns, now_ms);
        }
    }

    /// The titles as they are now, in no order.
    pub fn read(self) -> Vec<Ranked> {
        self.0.iter().filter_map(Place::read).collect()
    }

    /// Removes all titles, after the process that added them has ended.
    pub fn clear(self) {
        for place in self.0 {
            place.words().for_each(|word| word.store(0, Relaxed));
        }
    }
}

/// A title as words, followed by zeros.
fn words_of(title: &[u8]) -> [u64; TITLE_WORDS] {
    let mut words = [0; TITLE_WORDS];
    for (word, bytes) in words.iter_mut().zip(title.chunks(size_of::<u64>())) {
        let mut whole = [0; size_of::<u64>()];
        whole
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        *word = u64::from_le_bytes(whole);
    }
    words
}

impl Place {
    fn has(&self, title: &[u64; TITLE_WORDS]) -> bool {
        let own = self.title.iter().map(|word| word.load(Relaxed));
        self.count.load(Relaxed) > 0 && own.eq(title.iter().copied())
    }

    /// The smallest gives way.
    fn rank(&self, now_ms: u64) -> (bool, bool, u64) {
        let count = self.count.load(Relaxed);
        let is_recent = now_ms.saturating_sub(self.last_ms.load(Relaxed)) < RECENT_MS;
        let mean_ns = self.total_ns.load(Relaxed).checked_div(count);
        (count > 0, is_recent, mean_ns.unwrap_or_default())
    }

    /// The version is odd meanwhile, by which a reader knows that it has not read one state.
    fn add(&self, title: &[u64; TITLE_WORDS], is_same: bool, took_ns: u64, now_ms: u64) {
        let version = self.version.load(Relaxed);
        self.version.store(version.wrapping_add(1), Relaxed);
        fence(Release);
        if !is_same {
            self.count.store(0, Relaxed);
            self.total_ns.store(0, Relaxed);
            self.since_ms.store(now_ms, Relaxed);
            for (to, from) in self.title.iter().zip(title) {
                to.store(*from, Relaxed);
            }
        }
        let (count, total_ns) = (self.count.load(Relaxed), self.total_ns.load(Relaxed));
        self.count.store(count.wrapping_add(1), Relaxed);
        self.total_ns
            .store(total_ns.saturating_add(took_ns), Relaxed);
        self.last_ms.store(now_ms, Relaxed);
        self.version.store(version.wrapping_add(2), Release);
    }

    /// None if it has no title, or cannot be read: its process has ended while it was writing.
    fn read(&self) -> Option<Ranked> {
        for _ in 0..READS_MAX {
            let version = self.version.load(Acquire);
            if version.is_multiple_of(2) {
                let read = self.read_now();
                fence(Acquire);
                if self.version.load(Relaxed) == version {
                    return (read.count > 0).then_some(read);
                }
            }
            std::hint::spin_loop();
        }
        None
    }

    /// What is there, which may be of several moments.
    fn read_now(&self) -> Ranked {
        let title = self.title.iter();
        let title = title.flat_map(|word| word.load(Relaxed).to_le_bytes());
        Ranked {
            title: title.take_while(|byte| *byte != 0).collect(),
            count: self.count.load(Relaxed),
            total_ns: self.total_ns.load(Relaxed),
            since_ms: self.since_ms.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(ranking: Ranking) -> Vec<String> {
        let read = ranking.read().into_iter();
        let mut titles: Vec<String> = read
            .map(|it| format!("{} {} {}", it.title.escape_ascii(), it.count, it.total_ns))
            .collect();
        titles.sort();
        titles
    }

    #[test]
    fn times_of_a_title_are_added_up() {
        let ranking = Ranking::new().unwrap();
        assert!(ranking.read().is_empty());
        ranking.add(b"GET /", 5, 0);
        ranking.add(b"GET /a", 7, 0);
        ranking.add(b"GET /", 6, 1);
        assert_eq!(titles(ranking), ["GET / 2 11", "GET /a 1 7"]);
        ranking.clear();
        assert!(ranking.read().is_empty());
        ranking.add(b"GET /", 1, 7);
        ranking.add(b"GET /", 1, 8);
        assert_eq!(titles(ranking), ["GET / 2 2"]);
        assert_eq!(ranking.read()[0].since_ms, 7);
    }

    #[test]
    fn the_smallest_of_those_not_seen_recently_gives_way() {
        let ranking = Ranking::new().unwrap();
        for number in 0..PLACES as u64 {
            // The first five are old.
            let now_ms = if number < 5 { 0 } else { RECENT_MS };
            ranking.add(format!("{number:02}").as_bytes(), 100 - number, now_ms);
        }
        let has = |title: &[u8]| ranking.read().iter().any(|it| it.title == title);
        ranking.add(b"new", 1, RECENT_MS);
        assert!(has(b"new") && !has(b"04") && has(b"15"));
        // Without old ones it is the smallest of all.
        for number in 0..4 {
            ranking.add(format!("{number:02}").as_bytes(), 100, RECENT_MS);
        }
        ranking.add(b"newer", 1000, RECENT_MS);
        assert!(has(b"newer") && !has(b"new") && has(b"15"));
        assert_eq!(ranking.read().len(), PLACES);
        // However often others are added.
        for _ in 0..100 {
            ranking.add(b"15", 85, RECENT_MS);
            ranking.add(b"other", 84, RECENT_MS);
            ranking.add(b"another", 84, RECENT_MS);
        }
        assert!(has(b"newer"));
    }

    #[test]
    fn a_long_title_is_cut_and_still_found() {
        let ranking = Ranking::new().unwrap();
        ranking.add(&[b'a'; 999], 1, 0);
        ranking.add(&[b'a'; 998], 1, 0);
        let read = ranking.read();
        assert_eq!((read.len(), read[0].count), (1, 2));
        assert_eq!(read[0].title.len(), Ranking::TITLE_BYTES_MAX);
    }

    #[test]
    fn a_reader_sees_one_state_while_titles_change() {
        let ranking = Ranking::new().unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut round = 0;
                while !is_over.load(Relaxed) {
                    let letter = b'A' + (round % 40) as u8;
                    ranking.add(&[letter; 200], u64::from(letter), round);
                    round += 1;
                }
            });
            let mut seen = 0;
            while seen < 20_000 && !writer.is_finished() {
                for it in ranking.read() {
                    // Each title consists of one letter, whose number is the time of each addition.
                    let letter = it.title[0];
                    assert!(it.title.iter().all(|byte| *byte == letter));
                    assert_eq!(it.total_ns, it.count * u64::from(letter));
                    seen += 1;
                }
            }
            is_over.store(true, Relaxed);
        });
    }

    #[test]
    fn a_place_whose_writer_has_ended_in_between_is_left_out() {
        let ranking = Ranking::new().unwrap();
        ranking.add(b"GET /", 5, 0);
        ranking.0[0].version.fetch_add(1, Relaxed);
        assert!(ranking.read().is_empty());
        ranking.clear();
        ranking.add(b"GET /", 5, 0);
        assert_eq!(titles(ranking), ["GET / 1 5"]);
    }
}
