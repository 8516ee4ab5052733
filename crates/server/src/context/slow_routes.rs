//! Which routes have slow requests: what a worker notes of these, for a process that shows them.
//!
//! Only slow requests are noted; the others cost next to nothing. Before the next wait they are named: by their route or, if the application has
//! none for them, by their path.

use net::Ranking;

use crate::app::head::Head;
use crate::router::percent_decode;

/// A request that takes as long is slow: twice the time after which the thread that looks for long calls looks again, so that it has seen the call.
pub(crate) const SLOW_NS: u64 = 10_000_000;
/// A segment of a path with more bytes is taken for an identifier.
const SEGMENT_BYTES_MAX: usize = 32;
/// And one with as many digits.
const DIGITS_MIN: usize = 3;

/// Method and path of a request, in a block of their own: kept of each request that the application was called for and has not responded to at
/// once.
pub(crate) type RequestName = Box<[u8]>;

/// Method and path of a request.
pub(crate) fn name_of(head: Head<'_>) -> RequestName {
    [head.method_name(), b" ", head.path()].concat().into()
}

/// Slow requests that have ended, until they are ranked.
#[derive(Default)]
pub(crate) struct SlowRoutes {
    ranking: Option<Ranking>,
    ended: Vec<(RequestName, u64)>,
}

impl SlowRoutes {
    pub(crate) fn new(ranking: Ranking) -> SlowRoutes {
        SlowRoutes {
            ranking: Some(ranking),
            ended: Vec::new(),
        }
    }

    /// A slow request has ended.
    #[cold]
    pub(crate) fn note(&mut self, name: RequestName, took_ns: u64) {
        if self.ranking.is_some() {
            self.ended.push((name, took_ns));
        }
    }

    pub(crate) fn are_noted(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Ranks what was noted. `route_of` has the pattern of the route for a method's name and a path.
    #[cold]
    pub(crate) fn rank<'a>(
        &mut self,
        now_ms: u64,
        route_of: impl Fn(&[u8], &[u8]) -> Option<&'a str>,
    ) {
        let Some(ranking) = self.ranking else {
            return;
        };
        for (name, took_ns) in std::mem::take(&mut self.ended) {
            let mut parts = name.splitn(2, |byte| *byte == b' ');
            let method = parts.next().unwrap_or_default();
            let path = parts.next().unwrap_or_default();
            let title = match route_of(method, path) {
                Some(pattern) => [method, b" ", pattern.as_bytes()].concat(),
                None => [method, b" ", generalized(path).as_slice()].concat(),
            };
            ranking.add(&title, took_ns, now_ms);
        }
    }
}

/// A path with `*` in the place of each segment that seems to identify something, such as `/users/*` of `/users/42`.
fn generalized(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let segments = segments.map(|segment| match is_identifier(segment) {
        true => &b"*"[..],
        false => segment,
    });
    segments.collect::<Vec<_>>().join(&b'/')
}

fn is_identifier(segment: &[u8]) -> bool {
    let segment = percent_decode(segment);
    let digits = segment.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_number_first = segment.first().is_some_and(u8::is_ascii_digit);
    is_number_first || digits >= DIGITS_MIN || segment.len() > SEGMENT_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(
        names: &[&str],
        route_of: impl Fn(&[u8], &[u8]) -> Option<&'static str>,
    ) -> Vec<String> {
        let ranking = Ranking::new().unwrap();
        let mut routes = SlowRoutes::new(ranking);
        for name in names {
            routes.note(name.as_bytes().into(), 3);
        }
        assert!(routes.are_noted());
        routes.rank(0, route_of);
        assert!(!routes.are_noted());
        let mut read = ranking.read();
        read.sort_by(|one, other| one.title.cmp(&other.title));
        let shown = read.iter().map(|it| {
            assert_eq!(it.total_ns, it.count * 3);
            format!("{} {}", it.title.escape_ascii(), it.count)
        });
        shown.collect()
    }

    #[test]
    fn paths_without_a_route_are_generalized() {
        let names = [
            "GET /users/42",
            "GET /users/007",
            "GET /api/v1/oauth2/x9a8b7",
            "GET /2024/10/a-first-post",
            "GET /",
            "GET //a/",
            "GET /caf%C3%A9%C3%A9/%31",
            "POST /tokens/abcdefghijklmnopqrstuvwxyzabcdefg",
            "OPTIONS *",
        ];
        assert_eq!(
            ranked(&names, |_, _| None),
            [
                "GET / 1",
                "GET /*/*/a-first-post 1",
                "GET //a/ 1",
                "GET /api/v1/oauth2/* 1",
                "GET /caf%C3%A9%C3%A9/* 1",
                "GET /users/* 2",
                "OPTIONS * 1",
                "POST /tokens/* 1",
            ]
        );
    }

    #[test]
    fn a_route_gives_requests_its_pattern() {
        let route_of = |method: &[u8], path: &[u8]| {
            (method == b"GET" && path.starts_with(b"/users/")).then_some("/users/{name}")
        };
        let names = ["GET /users/ada", "GET /users/bob", "PUT /users/bob"];
        let expected = ["GET /users/{name} 2", "PUT /users/bob 1"];
        assert_eq!(ranked(&names, route_of), expected);
    }

    #[test]
    fn nothing_is_noted_without_a_ranking() {
        let mut routes = SlowRoutes::default();
        routes.note((*b"GET /").into(), 1);
        assert!(!routes.are_noted());
    }
}
