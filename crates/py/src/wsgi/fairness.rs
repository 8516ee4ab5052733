//! Turns of connections at the threads: each round has at most one request of a connection.
//!
//! A request gets the round after that of its connection's last one that waits, or the current one if none waits. Requests are taken in the
//! order of their rounds, and of their arrival within a round. So a connection with one request waits for one of each other connection at
//! most, however many requests these have (start-time fair queueing, with requests of equal length).

use std::collections::HashMap;

/// What is known of a connection with requests that wait.
struct Waiting {
    /// The round of its last one.
    last_round: u64,
    count: usize,
}

/// The rounds of requests that wait.
#[derive(Default)]
pub(super) struct Rounds {
    /// That of the request that was taken last.
    current: u64,
    /// By connection.
    waiting: HashMap<u32, Waiting>,
}

impl Rounds {
    /// A request of a connection starts to wait. Returns its round.
    pub(super) fn join(&mut self, connection: u32) -> u64 {
        let current = self.current;
        let waiting = self.waiting.entry(connection);
        let waiting = waiting
            .and_modify(|it| {
                it.last_round = current.max(it.last_round + 1);
                it.count += 1;
            })
            .or_insert(Waiting {
                last_round: current,
                count: 1,
            });
        waiting.last_round
    }

    /// A request of a connection waits no longer; `round` if it was taken, None if it was dropped.
    pub(super) fn leave(&mut self, connection: u32, round: Option<u64>) {
        self.current = round.unwrap_or(self.current);
        if let Some(waiting) = self.waiting.get_mut(&connection) {
            waiting.count -= 1;
            if waiting.count == 0 {
                self.waiting.remove(&connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which requests of these connections are taken if all wait.
    fn order(rounds: &mut Rounds, connections: &[u32]) -> Vec<u32> {
        let joined = connections.iter().map(|it| (rounds.join(*it), *it));
        let mut queue: Vec<(u64, u32)> = joined.collect();
        queue.sort_by_key(|(round, _)| *round);
        for (round, connection) in &queue {
            rounds.leave(*connection, Some(*round));
        }
        queue
            .into_iter()
            .map(|(_, connection)| connection)
            .collect()
    }

    #[test]
    fn connections_take_turns() {
        let mut rounds = Rounds::default();
        let found = order(&mut rounds, &[1, 1, 1, 1, 2, 3, 3]);
        assert_eq!(found, [1, 2, 3, 1, 3, 1, 1]);
        assert!(rounds.waiting.is_empty());
        assert_eq!(order(&mut rounds, &[4, 5, 6, 4]), [4, 5, 6, 4]);
    }

    #[test]
    fn what_arrives_later_is_taken_after_one_of_each_other_connection() {
        let mut rounds = Rounds::default();
        let waiting: Vec<u64> = (0..100).map(|_| rounds.join(1)).collect();
        for round in waiting.iter().take(40) {
            rounds.leave(1, Some(*round));
        }
        let late = rounds.join(2);
        assert!(waiting[39] <= late && late < waiting[40]);
        // One that was dropped changes nothing for others.
        rounds.leave(2, None);
        assert_eq!(rounds.join(3), late);
    }
}
