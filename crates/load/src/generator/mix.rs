//! The kinds of requests in the order in which they are sent: a fixed cycle, rendered once.
//!
//! The start of the cycle is appended to it, as far as a batch reaches, so that every batch is one slice of bytes.

use super::channel::messages;
use super::{Plan, Protocol};

/// Maximum number of requests in one cycle. Weights that need more are more exact than is useful.
const CYCLE_MAX: usize = 10_000;
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Everything that is sent, in order.
pub(super) struct Mix {
    bytes: Vec<u8>,
    /// Where each request starts in the bytes, and where the last one ends.
    offsets: Vec<usize>,
    /// The kind of each request.
    kinds: Vec<u32>,
    cycle: usize,
}

impl Mix {
    /// # Errors
    /// If the cycle would be too long; the message is one line that says how to fix it.
    pub(super) fn new(plan: &Plan) -> Result<Mix, String> {
        if let Protocol::WebSocket(websocket) = plan.protocol {
            return messages::frames(plan, &websocket);
        }
        let weights: Vec<u32> = plan.requests.iter().map(|it| it.weight).collect();
        let order = interleaved(&weights).ok_or_else(|| {
            format!("the weights make a cycle of more than {CYCLE_MAX} requests; round them")
        })?;
        let rendered: Vec<Vec<u8>> = match plan.protocol {
            // Requests on streams are encoded for each connection.
            Protocol::Http2 { .. } => Vec::new(),
            _ => plan.requests.iter().map(|it| it.bytes(plan)).collect(),
        };
        let cycle = order.len();
        let all = order
            .iter()
            .cycle()
            .take(cycle + plan.protocol.depth() as usize);
        let request = |kind: &u32| rendered.get(*kind as usize).map_or(&[][..], Vec::as_slice);
        Mix::laid(cycle, all.map(|kind| (*kind, request(kind))))
    }

    /// A cycle of this length, followed by as much of its start as a batch may reach: kinds and bytes.
    ///
    /// # Errors
    /// If they are too many bytes; the message is one line that says how to fix it.
    pub(super) fn laid<T: AsRef<[u8]>>(
        cycle: usize,
        all: impl Iterator<Item = (u32, T)>,
    ) -> Result<Mix, String> {
        let mut mix = Mix {
            bytes: Vec::new(),
            offsets: vec![0],
            kinds: Vec::new(),
            cycle,
        };
        for (kind, bytes) in all {
            mix.bytes.extend_from_slice(bytes.as_ref());
            mix.offsets.push(mix.bytes.len());
            mix.kinds.push(kind);
            if mix.bytes.len() > BYTES_MAX {
                let bytes_max = BYTES_MAX >> 20;
                return Err(format!(
                    "a cycle of all requests has more than {bytes_max} MiB; send less content"
                ));
            }
        }
        Ok(mix)
    }

    /// The bytes of `count` requests from a position.
    #[inline]
    pub(super) fn slice(&self, position: u32, count: u32) -> &[u8] {
        self.bytes(self.offset(position), self.offset(position + count))
    }

    /// The kind of the request at a position.
    pub(super) fn kind(&self, position: u32) -> usize {
        self.kinds
            .get(position as usize)
            .map_or(0, |it| *it as usize)
    }

    /// Whether all requests are of one kind.
    pub(super) fn is_uniform(&self) -> bool {
        self.cycle == 1
    }

    /// Where the request at a position starts in the bytes.
    #[inline]
    pub(super) fn offset(&self, position: u32) -> usize {
        let last = self.offsets.last().copied().unwrap_or(0);
        self.offsets.get(position as usize).copied().unwrap_or(last)
    }

    /// The bytes from one offset to another.
    #[inline]
    pub(super) fn bytes(&self, from: usize, to: usize) -> &[u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// The position `count` requests after `position`, in the cycle.
    pub(super) fn advanced(&self, position: u32, count: u32) -> u32 {
        ((position as usize + count as usize) % self.cycle) as u32
    }

    /// How many of the requests before position `end` start at `offset` or after it.
    pub(super) fn starting_from(&self, offset: usize, end: u32) -> u32 {
        let starts = self.offsets.get(..end as usize).unwrap_or_default();
        end - starts.partition_point(|it| *it < offset) as u32
    }

    /// How many of the requests before position `end` end after `offset`.
    pub(super) fn ending_after(&self, offset: usize, end: u32) -> u32 {
        let ends = self.offsets.get(1..=end as usize).unwrap_or_default();
        end - ends.partition_point(|it| *it <= offset) as u32
    }
}

/// The kinds in turn, each in proportion to its weight and evenly spaced. In every step each kind gains its weight, and the one with the
/// highest sum is sent and pays the total. `None`: the cycle is too long.
fn interleaved(weights: &[u32]) -> Option<Vec<u32>> {
    let divisor = weights.iter().copied().fold(0, common_divisor).max(1);
    let weights: Vec<i64> = weights.iter().map(|it| i64::from(it / divisor)).collect();
    let total: i64 = weights.iter().sum();
    if total > CYCLE_MAX as i64 {
        return None;
    }
    let mut gained = vec![0; weights.len()];
    let mut order = Vec::new();
    for _ in 0..total {
        for (sum, weight) in gained.iter_mut().zip(&weights) {
            *sum += weight;
        }
        let most = gained.iter().copied().max()?;
        let turn = gained.iter().position(|it| *it == most)?;
        if let Some(sum) = gained.get_mut(turn) {
            *sum -= total;
        }
        order.push(turn as u32);
    }
    Some(order)
}

fn common_divisor(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        _ => common_divisor(other, one % other),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    #[test]
    fn kinds_take_turns_by_weight_and_evenly() {
        assert_eq!(interleaved(&[1]), Some(vec![0]));
        assert_eq!(interleaved(&[50, 50]), Some(vec![0, 1]));
        assert_eq!(interleaved(&[2, 4]), Some(vec![1, 0, 1]));
        let order = interleaved(&[5, 3, 2]).unwrap();
        let count = |kind| order.iter().filter(|it| **it == kind).count();
        assert_eq!((count(0), count(1), count(2)), (5, 3, 2));
        assert!(order.windows(3).all(|it| it != [0, 0, 0]));
        assert_eq!(interleaved(&[10_007, 2]), None);
    }

    #[test]
    fn a_batch_that_passes_the_cycles_end_is_one_slice() {
        let request = |target: &str| Request {
            target: target.into(),
            host: "h".into(),
            ..Request::default()
        };
        let plan = Plan {
            requests: vec![request("/a"), request("/bb")],
            protocol: Protocol::Http11 { pipeline_depth: 3 },
            ..Plan::default()
        };
        let mix = Mix::new(&plan).unwrap();
        let text = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let batch = mix.bytes(mix.offset(1), mix.offset(4));
        let expected = [text("/bb"), text("/a"), text("/bb")].concat();
        assert_eq!(batch, expected.as_bytes());
        assert_eq!((mix.kind(1), mix.kind(2), mix.kind(3)), (1, 0, 1));
        assert_eq!(mix.advanced(1, 3), 0);
        let second = mix.offset(2);
        assert_eq!(mix.starting_from(second, 4), 2);
        assert_eq!(mix.starting_from(second + 1, 4), 1);
        assert_eq!(mix.ending_after(second, 4), 2);
        assert_eq!(mix.ending_after(second - 1, 4), 3);
    }
}
