//! What bounds one request: those of the server, or of its route or the prefix of its path.

use crate::app::bounds::Overrides;
use crate::router::percent_decode;

/// The bounds of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) body_bytes_max: u64,
    /// 0 = no limit.
    pub(crate) handler_timeout_ms: u64,
    /// It has waited for a place, which it does once at most.
    pub(crate) has_waited: bool,
}

impl Bounds {
    pub(crate) fn with(self, overrides: Overrides) -> Bounds {
        Bounds {
            body_bytes_max: overrides.body_bytes_max.unwrap_or(self.body_bytes_max),
            handler_timeout_ms: overrides
                .handler_timeout_ms
                .unwrap_or(self.handler_timeout_ms),
            ..self
        }
    }

    fn strictest(self, other: Bounds) -> Bounds {
        // 0 is no limit: it becomes the greatest number, and the other way round.
        let timeout_ms = |bounds: Bounds| bounds.handler_timeout_ms.wrapping_sub(1);
        Bounds {
            body_bytes_max: self.body_bytes_max.min(other.body_bytes_max),
            handler_timeout_ms: timeout_ms(self).min(timeout_ms(other)).wrapping_add(1),
            ..self
        }
    }
}

/// The bounds of paths, by prefix.
///
/// A prefix covers itself and the paths below it: `/a` covers `/a` and `/a/b`, and not `/ab`. Each bound is that of the longest prefix that
/// has it.
///
/// A path with an encoded slash, a backslash, an empty or a dot segment may mean one resource to the application and another one to a proxy or
/// a file system, and they may resolve it one after the other. It gets the strictest of the bounds that it may have, so that no spelling of a
/// path loosens them. If it has a segment `..`, these are the server's, and those of each prefix whose segments are in it in the same order.
#[derive(Clone, Debug, Default)]
pub struct PathRules {
    /// The longest prefixes first.
    rules: Vec<(Vec<u8>, Overrides)>,
}

impl PathRules {
    /// Adds a rule for a prefix, which is not percent-encoded.
    pub fn add(&mut self, prefix: &str, overrides: Overrides) {
        self.rules.push((prefix.as_bytes().to_vec(), overrides));
        self.rules
            .sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The most content that any of them allows.
    pub fn body_bytes_max(&self) -> Option<u64> {
        let bounds = self.rules.iter().map(|(_, rule)| rule.body_bytes_max);
        bounds.flatten().max()
    }

    /// The bounds of a path as it was received, where those of the server are `bounds`.
    pub(crate) fn bounds_of(&self, path: &[u8], bounds: Bounds) -> Bounds {
        match self.rules.is_empty() || is_plain(path) {
            true => bounds.with(self.of(path)),
            false => self.bounds_of_unusual(path, bounds),
        }
    }

    fn bounds_of_unusual(&self, path: &[u8], bounds: Bounds) -> Bounds {
        let decoded = percent_decode(path);
        let encoded_slash = path.windows(3).position(is_encoded_slash);
        let before_slash = encoded_slash.map(|at| percent_decode(path.get(..at).unwrap_or(path)));
        let Some(certain) = before_doubt(&decoded, before_slash.as_deref()) else {
            return bounds.with(self.of(&decoded));
        };
        let segments = || {
            let all = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
            all.filter(|segment| !matches!(*segment, b"" | b"."))
        };
        let has_parent = segments().any(|segment| segment == b"..");
        let certain = match has_parent {
            // It may take back all that precedes it.
            true => certain.get(..1).unwrap_or_default(),
            false => certain,
        };
        let mut found = bounds.with(self.of(certain));
        for (prefix, rule) in &self.rules {
            if !covers(prefix, certain) && may_cover(prefix, segments(), has_parent) {
                found = found.strictest(found.with(*rule));
            }
        }
        found
    }

    fn of(&self, path: &[u8]) -> Overrides {
        let mut found = Overrides::default();
        for (prefix, rule) in &self.rules {
            if covers(prefix, path) {
                found.body_bytes_max = found.body_bytes_max.or(rule.body_bytes_max);
                found.handler_timeout_ms = found.handler_timeout_ms.or(rule.handler_timeout_ms);
            }
        }
        found
    }
}

fn covers(prefix: &[u8], path: &[u8]) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => prefix.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}

/// Whether a path means the same to everybody. Some for which this returns false do, too.
fn is_plain(path: &[u8]) -> bool {
    let mut before = 0;
    path.iter().all(|&byte| {
        let pair = (std::mem::replace(&mut before, byte), byte);
        !matches!(pair, (_, b'%' | b'\\') | (b'/', b'/' | b'.'))
    })
}

fn is_encoded_slash(part: &[u8]) -> bool {
    part.eq_ignore_ascii_case(b"%2f")
}

/// The part of a decoded path before the first segment that may mean something else: one with a backslash or an encoded slash (`before_slash`
/// precedes the first of them), an empty one, or a dot segment. None if it has none.
fn before_doubt<'a>(decoded: &'a [u8], before_slash: Option<&[u8]>) -> Option<&'a [u8]> {
    let slash_at = before_slash.map_or(usize::MAX, <[u8]>::len);
    let mut start = 0;
    for segment in decoded.split(|&byte| byte == b'/') {
        let end = start + segment.len();
        // The first one is empty because the path starts with a slash. The last one may be empty.
        let is_empty = segment.is_empty() && start > 0 && end < decoded.len();
        let is_dots = matches!(segment, b"." | b"..");
        if is_empty || is_dots || segment.contains(&b'\\') || end >= slash_at {
            return decoded.get(..start);
        }
        start = end + 1;
    }
    None
}

/// Whether a prefix may cover a path with these segments: a reading joins some of them, and with a parent it leaves out others.
fn may_cover<'a>(
    prefix: &[u8],
    mut segments: impl Iterator<Item = &'a [u8]>,
    has_parent: bool,
) -> bool {
    let wanted = prefix.split(|&byte| byte == b'/');
    let mut wanted = wanted.filter(|segment| !segment.is_empty());
    wanted.all(|wanted| match has_parent {
        true => segments.any(|segment| segment == wanted),
        false => segments.next() == Some(wanted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Bounds = Bounds {
        body_bytes_max: 100,
        handler_timeout_ms: 60,
        has_waited: false,
    };

    fn rules(all: &[(&str, Option<u64>, Option<u64>)]) -> PathRules {
        let mut rules = PathRules::default();
        for (prefix, body_bytes_max, handler_timeout_ms) in all {
            let overrides = Overrides {
                body_bytes_max: *body_bytes_max,
                handler_timeout_ms: *handler_timeout_ms,
            };
            rules.add(prefix, overrides);
        }
        rules
    }

    fn body(rules: &PathRules, path: &str) -> u64 {
        rules.bounds_of(path.as_bytes(), SERVER).body_bytes_max
    }

    #[test]
    fn each_bound_is_that_of_the_longest_prefix_that_has_it() {
        let rules = rules(&[
            ("/", None, Some(50)),
            ("/a", Some(10), Some(5)),
            ("/a/b", Some(1000), None),
            ("/c/", Some(1), Some(0)),
        ]);
        let found = |path: &str| {
            let bounds = rules.bounds_of(path.as_bytes(), SERVER);
            (bounds.body_bytes_max, bounds.handler_timeout_ms)
        };
        assert_eq!(found("/x"), (100, 50));
        assert_eq!(found("/a"), (10, 5));
        assert_eq!(found("/a/"), (10, 5));
        assert_eq!(found("/ab"), (100, 50));
        assert_eq!(found("/a/b"), (1000, 5));
        assert_eq!(found("/a/b/c"), (1000, 5));
        assert_eq!(found("/a/bc"), (10, 5));
        assert_eq!(found("/c"), (100, 50));
        assert_eq!(found("/c/d"), (1, 0));
        assert_eq!(found("*"), (100, 60));
        assert_eq!(PathRules::default().bounds_of(b"/", SERVER), SERVER);
    }

    #[test]
    fn no_spelling_avoids_a_strict_bound() {
        let rules = rules(&[("/login", Some(1), None), ("/ü", Some(2), None)]);
        for path in [
            "/login",
            "/%6cogin",
            "/%6Cogin/",
            "/login/x",
            "/./login",
            "//login",
            "/x/../login",
            "/x/%2e%2e/login",
            "/x/.%2E/login",
            "/%2Flogin",
            "/%2flogin",
            "\\login",
            "/x\\..\\login",
            "/%5clogin",
            "/login%2Fx",
            "/../login",
            "/login/..",
            "/x/..//login/.",
            "/x%2fy/../login",
            "/x%2Fy/%2e%2e/login",
            "/x%5cy/../login",
            "/x\\y/../login",
            "/a//../../login",
            "/a/b%2fc/..%2f../login",
            "/x/y/%2e%2e/../%2e%2e/login",
        ] {
            // The last segment of "/login/.." leads out of it, which only the spelling as it is covers.
            assert_eq!(body(&rules, path), 1, "{path}");
        }
        for path in ["/%C3%BC", "/%c3%bc/x"] {
            assert_eq!(body(&rules, path), 2, "{path}");
        }
        for path in [
            "/logins",
            "/x/login",
            "/x//login",
            "/x%2Flogin",
            "/Login",
            "/%256cogin",
            "/login%00",
            "/.login",
            "/x/../logins",
        ] {
            assert_eq!(body(&rules, path), 100, "{path}");
        }
    }

    #[test]
    fn no_spelling_avoids_a_strict_bound_below_another_one() {
        let rules = rules(&[
            ("/a", Some(10), None),
            ("/a/login", Some(1), None),
            ("/a/login/deep", Some(1000), Some(5)),
            ("/c/", Some(2), None),
        ]);
        for path in [
            "/a//../login",
            "/a//..//login",
            "/a/x%2fy/../login",
            "/b/../a/x/../login",
            "/a/./login//deep",
            "/a//login/./deep/x",
        ] {
            assert_eq!(body(&rules, path), 1, "{path}");
        }
        for path in ["/a//x", "/a/./x", "/a/login%2fx/..", "/a%2fx"] {
            let strict = if path.contains("login") { 1 } else { 10 };
            assert_eq!(body(&rules, path), strict, "{path}");
        }
        for path in ["//c/x", "/./c/", "/x/../c/y"] {
            assert_eq!(body(&rules, path), 2, "{path}");
        }
        // What precedes the first doubt is certain.
        assert_eq!(body(&rules, "/a/login/deep//x"), 1000);
        assert_eq!(body(&rules, "/a/login/deep/x%2Fy"), 1000);
    }

    #[test]
    fn no_spelling_of_another_path_gets_a_loose_bound() {
        let rules = rules(&[
            ("/upload", Some(1000), Some(0)),
            ("/upload/small", Some(5), Some(7)),
        ]);
        for path in [
            "/upload/../login",
            "/upload/%2e%2e/login",
            "/upload/..",
            "/upload%2F..%2Flogin",
            "/upload%2Fx",
            "/upload\\..\\login",
            "/upload/x/../../login",
            "/login/../upload",
            "/upload/..%2flogin",
            "/upload/..%5Clogin",
            "/upload/x%2fy/../../login",
            "/upload/x%5cy/../../login",
            "/upload//../login",
            "/upload/x/../y",
        ] {
            let bounds = rules.bounds_of(path.as_bytes(), SERVER);
            assert_eq!(bounds, SERVER, "{path}");
        }
        for path in [
            "/upload",
            "/upload/",
            "/upload/a//b",
            "/upload/./x",
            "/%75pload/x",
            "/upload/a%20b",
        ] {
            assert_eq!(body(&rules, path), 1000, "{path}");
        }
        for path in [
            "/upload/small",
            "/upload/x/../small",
            "/upload//small",
            "/upload/small/../x",
        ] {
            let bounds = rules.bounds_of(path.as_bytes(), SERVER);
            assert_eq!(
                (bounds.body_bytes_max, bounds.handler_timeout_ms),
                (5, 7),
                "{path}"
            );
        }
    }
}
